"""Items from files and to bytes: pictures, captions, sound."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile

from .films import FILMS, read_frames
from .reading import check_size, named

LONGEST_SOUND = 400_000_000  # samples: two hours at 48 kHz
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
SOUNDS = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")
CAPTIONS = (".txt", ".json")


def read_picture(path: Path) -> Any:
    """A picture, upright, as a decoded Pillow image; its size is checked before it is decoded."""
    from PIL import Image, ImageOps

    with named(path, "a picture"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about damaged metadata and size
        with Image.open(path) as image:
            check_size(path, image.width, image.height)
            return ImageOps.exif_transpose(image)


def read_clip(paths: Sequence[Path]) -> list[Any]:
    """The frames of a clip, which must be of one size, or ten frames of a film."""
    if paths[0].suffix.lower() in FILMS:
        return read_frames(paths[0])
    frames = [read_picture(path) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        if frame.size != frames[0].size:
            sizes = [f"{one.width} x {one.height}" for one in (frames[0], frame)]
            raise BadFile(
                f'the frames of a clip must be of one size; "{paths[0]}" has {sizes[0]} pixels, '
                f'"{path}" has {sizes[1]}.'
            )
    return frames


def encode_picture(image: Any, suffix: str, quality: int) -> bytes:
    """A Pillow image as JPEG or, for any other suffix, PNG."""
    buffer = BytesIO()
    if suffix in (".jpg", ".jpeg"):
        image.save(buffer, "JPEG", quality=quality)
    else:
        image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def read_sound(path: Path) -> Any:
    """A sound file as a mono `Waveform`: several channels become their mean."""
    import soundfile

    from ..audio import Waveform

    with named(path, "a sound file"), soundfile.SoundFile(path) as file:
        if file.frames * file.channels > LONGEST_SOUND:
            raise BadFile(
                f'"{path}" has {file.frames:,} samples in {file.channels} channels; more than '
                f"{LONGEST_SOUND:,} are not decoded: cut it first."
            )
        channels, rate = file.read(dtype="float32", always_2d=True), file.samplerate
    return Waveform(channels.mean(axis=1), rate)


def encode_sound(wave: Any, suffix: str) -> bytes:
    """A `Waveform` as 16-bit FLAC or, for any other suffix, WAV."""
    import soundfile

    buffer = BytesIO()
    kind = "FLAC" if suffix == ".flac" else "WAV"
    soundfile.write(buffer, wave.samples, wave.rate, format=kind, subtype="PCM_16")
    return buffer.getvalue()


@dataclass(frozen=True)
class Captions:
    """The captions of one file in order, with the JSON records they stand in, if any."""

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
    with named(path, "a file of captions"):
        text = path.read_text(encoding="utf-8-sig")
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
