"""Items to corrupt in files and folders; reading captions, encoding images and audio."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from queryshift.errors import BadInput
from queryshift.media.audio import AUDIO_SUFFIXES
from queryshift.media.images import IMAGE_SUFFIXES
from queryshift.media.item_reading import decoding, regular
from queryshift.media.videos import FRAMES_PER_VIDEO, VIDEO_SUFFIXES
from queryshift.media.waveform import Waveform
from queryshift.support.optional import need

CAPTIONS = (".txt", ".json")


def encode_image(image: Any, suffix: str, quality: int) -> bytes:
    """A Pillow image as JPEG or, for any other suffix, PNG."""
    buffer = BytesIO()
    if suffix in (".jpg", ".jpeg"):
        image.save(buffer, "JPEG", quality=quality)
    else:
        image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def encode_audio(wave: Waveform, suffix: str) -> bytes:
    """A `Waveform` as 16-bit FLAC or, for any other suffix, WAV."""
    soundfile = need("soundfile", "lab", "writing audio")
    buffer = BytesIO()
    kind = "FLAC" if suffix == ".flac" else "WAV"
    soundfile.write(buffer, wave.samples, wave.rate, format=kind, subtype="PCM_16")
    return buffer.getvalue()


@dataclass(frozen=True)
class Captions:
    """The captions of one file in order, with their JSON records, if any."""

    texts: tuple[str, ...]
    records: tuple[dict[str, Any], ...] | None = None

    def encode(self, texts: Iterable[str]) -> bytes:
        """The file with `texts` in place of the captions."""
        if self.records is None:
            return "".join(text + "\n" for text in texts).encode()
        new = iter(texts)
        return json.dumps([record | _filled(record, new) for record in self.records]).encode()


def read_captions(path: Path) -> Captions:
    """One caption a line, or a JSON list of records with a "caption" that is text or several."""
    with decoding(path, "a file of captions"):
        text = regular(path).read_text(encoding="utf-8-sig")
        if path.suffix.lower() != ".json":
            return Captions(tuple(text.removesuffix("\n").split("\n")) if text else ())
        records = tuple(json.loads(text))
        return Captions(tuple(caption for record in records for caption in _in(record)), records)


def _in(record: dict[str, Any]) -> list[str]:
    caption = record["caption"]
    found = [caption] if isinstance(caption, str) else list(caption)
    if not all(isinstance(each, str) for each in found):
        raise TypeError('"caption" holds something that is not text')
    return found


def _filled(record: dict[str, Any], texts: Iterator[str]) -> dict[str, Any]:
    if isinstance(record["caption"], str):
        return {"caption": next(texts)}
    return {"caption": [next(texts) for _ in record["caption"]]}


SUFFIXES = {
    "image": IMAGE_SUFFIXES,
    "text": CAPTIONS,
    "audio": AUDIO_SUFFIXES,
    "video": (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES),
}
_FRAME_FOLDER = re.compile(r"frame_\d+")


@dataclass(frozen=True)
class Item:
    """One query: its id (a path below a folder that was named) and the files it is made of."""

    id: str
    sources: tuple[Path, ...]

    @property
    def frames(self) -> tuple[str, ...]:
        """The names of a clip's frames; those of a video are numbered."""
        if self.sources[0].suffix.lower() in VIDEO_SUFFIXES:
            return tuple(f"frame_{index}.jpg" for index in range(FRAMES_PER_VIDEO))
        return tuple(source.name for source in self.sources)


def find_items(
    modality: str, path: Path, avoid: Path | None = None, base: Path | None = None
) -> list[Item]:
    """The items of `path` in order; `avoid`, the output, may lie inside it and is left out.

    Their ids are paths below `base`: if not given, `path` itself, or the folder of one file.
    """
    if not path.exists():
        raise BadInput(f'there is no file or folder "{path}".')
    if avoid is not None and avoid.resolve() == path.resolve():
        raise BadInput(f'"{path}" is named as input and as output; name another folder.')
    if base is not None:
        path, base = _below(path, base)
    files = [path] if path.is_file() else _files(path, SUFFIXES[modality], avoid)
    if not files:
        wanted = ", ".join(SUFFIXES[modality])
        raise BadInput(f'the folder "{path}" holds no {modality} files ({wanted}).')
    root = base or (path.parent if path.is_file() else path)
    if modality == "video":
        return _clips(root, files)
    return [Item(file.relative_to(root).as_posix(), (file,)) for file in files]


def _below(path: Path, base: Path) -> tuple[Path, Path]:
    """Both as absolute paths, one above the other; a file may be a link to anywhere."""
    base = base.resolve()
    place = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
    if not place.is_relative_to(base):
        raise BadInput(f'"{path}" does not lie below the base "{base}": name a folder above it.')
    return place, base


def _files(folder: Path, suffixes: Iterable[str], avoid: Path | None) -> list[Path]:
    fitting = (path for path in folder.rglob("*") if path.suffix.lower() in suffixes)
    found = sorted((path for path in fitting if path.is_file()), key=_natural)
    if avoid is None or not avoid.resolve().is_relative_to(folder.resolve()):
        return found
    return [path for path in found if not path.resolve().is_relative_to(avoid.resolve())]


def _clips(root: Path, files: list[Path]) -> list[Item]:
    """Frames by clip: `clip/*.jpg`, or `frame_0/clip.jpg`, `frame_1/clip.jpg` as published."""
    clips: dict[str, list[Path]] = {}
    frames_first = all(_FRAME_FOLDER.fullmatch(file.relative_to(root).parts[0]) for file in files)
    for file in files:
        place = file.relative_to(root)
        if frames_first:
            clip = Path(*place.parts[1:]).with_suffix("")
        elif file.suffix.lower() in VIDEO_SUFFIXES:
            clip = place.with_suffix("")
        else:
            clip = place.parent if place.parent.parts else Path(root.resolve().name)
        clips.setdefault(clip.as_posix(), []).append(file)
    return [Item(clip, tuple(frames)) for clip, frames in sorted(clips.items())]


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort key in which frame 2 comes before frame 10."""
    pieces = re.split(r"(\d+)", path.as_posix())
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]
