"""Images, videos, audio and text as parts of a page that needs no other file."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from queryshift.lab.corruptions.files.input_files import encode_audio
from queryshift.media.waveform import Waveform

RATE = 16_000
GAP = 2  # white pixels between the frames of a video
Kind = Literal["image", "frames", "audio", "text"]


class Part(NamedTuple):
    """Something to see, hear or read: a data URI, or the text itself."""

    kind: Kind
    content: str


def parts(modality: str, item: Any) -> list[Part]:
    """The parts of an item on a page; a composed query has two."""
    if modality == "image+text":
        image, text = item
        return [*parts("image", image), *parts("text", text)]
    if modality == "text":
        return [Part("text", item)]
    if modality == "audio":
        return [Part("audio", _wave(item))]
    if modality == "video":
        return [Part("frames", _image(_side_by_side(item)))]
    return [Part("image", _image(item))]


def _side_by_side(frames: Any) -> NDArray[np.uint8]:
    spaced = np.pad(np.asarray(frames), ((0, 0), (0, 0), (0, GAP), (0, 0)), constant_values=255)
    return np.concatenate(spaced, axis=1)[:, :-GAP]


def _image(pixels: Any) -> str:
    stored = BytesIO()
    Image.fromarray(np.asarray(pixels)).save(stored, "PNG")
    return _uri("image/png", stored.getvalue())


def _wave(samples: Any) -> str:
    return _uri("audio/wav", encode_audio(Waveform(np.asarray(samples), RATE), ".wav"))


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"
