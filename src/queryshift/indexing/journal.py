"""The journal of a build: a record of finished shards, written to disk at once."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, BinaryIO, NamedTuple, Self

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id


class BadRow(NamedTuple):
    """An item that was left out, and the reason."""

    id: Id
    reason: str


@dataclass(frozen=True)
class Receipt:
    """A finished shard: the number of its rows, and the items that were left out."""

    shard: int
    rows: int
    bad: tuple[BadRow, ...]


class Journal:
    """A folder with a line for each finished shard. One process at a time can open it.

    As a context manager, it closes itself, and is removed if no shard is finished.

    Args:
        folder: The folder; it is created if needed.
        plan: The digest of the items and the model; a journal of another plan is refused.
        restart: Whether to forget finished shards.
    """

    def __init__(self, folder: Path, plan: str, restart: bool = False) -> None:
        self.folder, self._plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _locked(folder)
        self.finished: dict[int, Receipt] = {}
        try:
            self._read(restart)
        except BadInput:
            self.close()
            raise

    def add(self, receipt: Receipt) -> None:
        """Record a finished shard; when this returns, it is on disk."""
        self._append(asdict(receipt))
        self.finished[receipt.shard] = receipt

    def forget(self) -> None:
        """Forget all finished shards."""
        self.finished = {}
        self._file.seek(0)
        self._file.truncate()
        self._append({"plan": self._plan})

    def remove(self) -> None:
        """Remove the folder, the journal first: without it the other files are ignored."""
        (self.folder / "journal.jsonl").unlink()
        rmtree(self.folder)

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.finished and self.folder.is_dir():
            self.remove()
        self.close()

    def _read(self, restart: bool) -> None:
        """Read the complete lines; drop a last line that a kill cut off."""
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        header, *lines = [json.loads(line) for line in whole.splitlines()] or [{}]
        if restart or not lines:
            self.forget()
            return
        if header != {"plan": self._plan}:
            raise BadInput(
                f'"{self.folder}" holds an unfinished build of other items, of another model or '
                "with other settings: finish that one, or start over with --restart."
            )
        self._file.seek(len(whole))
        self._file.truncate()
        for line in lines:
            bad = tuple(BadRow(*row) for row in line["bad"])
            self.finished[line["shard"]] = Receipt(line["shard"], line["rows"], bad)

    def _append(self, values: dict[str, Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _locked(folder: Path) -> BinaryIO:
    """Open the journal's file and lock it; the lock of a killed process is gone."""
    file = (folder / "journal.jsonl").open("ab+")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BadInput(
                f'another process is building into "{folder}": wait for it, or stop it.'
            ) from None
    file.seek(0)
    return file
