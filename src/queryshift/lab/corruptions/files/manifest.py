"""The manifest: one JSON line per corrupted item, enough to make the same files again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

from queryshift.errors import BadFile
from queryshift.media.item_reading import decoding

NAME = "manifest.jsonl"
BEGINNING = b'{"id": '


@dataclass(frozen=True)
class Entry:
    """How one item was corrupted, with hashes of its source and of the new files."""

    id: str
    modality: str
    corruption: str
    severity: int
    seed: int
    backend: str  # what made it: a preset, a text backend, synthetic or recorded noise
    options: dict[str, str]
    quality: int  # of JPEG files
    version: str  # of queryshift
    source: str  # SHA-256 of the clean file, or of the frames in order
    files: dict[str, str]  # path below the manifest's folder -> SHA-256

    def made_like(self, other: Entry) -> bool:
        """Whether both say the same but for the hashes of the files that came out."""
        return {**asdict(self), "files": sorted(self.files)} == {
            **asdict(other),
            "files": sorted(other.files),
        }


def read(path: Path) -> list[Entry]:
    """All entries; a last line that a killed process left unfinished is not one."""
    with decoding(path, "a manifest"):
        content = path.read_bytes()
    lines = content[: _finished(content, path)].split(b"\n")[:-1]
    return [_entry(line, f'line {number} of "{path}"') for number, line in enumerate(lines, 1)]


def append(path: Path, entry: Entry) -> None:
    """Hand one line to the operating system at once, so that nothing is lost if we are killed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            _cut_unfinished(file, path)
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
    except OSError as error:
        raise BadFile(f'the manifest "{path}" cannot be written: {error.strerror}.') from error


def _cut_unfinished(file: BinaryIO, path: Path) -> None:
    if file.seek(0, 2) == 0:
        return
    file.seek(-1, 2)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(_finished(file.read(), path))


def _finished(content: bytes, path: Path) -> int:
    """How much of the file is whole lines; the rest must be the beginning of an entry."""
    end = content.rfind(b"\n") + 1
    if not content[end:].startswith(BEGINNING[: len(content) - end]):
        raise BadFile(f'"{path}" is not a manifest of queryshift: move it away.')
    return end


def _entry(line: bytes, where: str) -> Entry:
    try:
        stored: dict[str, Any] = json.loads(line)
        entry = Entry(**stored)
    except (ValueError, TypeError) as error:
        raise BadFile(f"{where} is no manifest entry: {error}.") from error
    for field in fields(Entry):
        value = stored[field.name]
        if not _fits(value, str(field.type)):
            raise BadFile(f'{where} has a wrong "{field.name}": {value!r}.')
    if not entry.files:
        raise BadFile(f"{where} names no files.")
    return entry


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("dict"):
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    return isinstance(value, int if kind == "int" else str)
