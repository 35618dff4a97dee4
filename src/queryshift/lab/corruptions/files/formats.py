"""Captions from files; captions, pictures and sound to bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from queryshift.media.item_reading import decoding, regular
from queryshift.media.waveform import Waveform
from queryshift.support.optional import need

CAPTIONS = (".txt", ".json")


def encode_picture(image: Any, suffix: str, quality: int) -> bytes:
    """A Pillow image as JPEG or, for any other suffix, PNG."""
    buffer = BytesIO()
    if suffix in (".jpg", ".jpeg"):
        image.save(buffer, "JPEG", quality=quality)
    else:
        image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def encode_sound(wave: Waveform, suffix: str) -> bytes:
    """A `Waveform` as 16-bit FLAC or, for any other suffix, WAV."""
    soundfile = need("soundfile", "lab", "writing sounds")
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
