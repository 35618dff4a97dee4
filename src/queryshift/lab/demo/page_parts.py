"""Pictures, clips, sounds and sentences as parts of a page that needs no other file."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from queryshift.support.optional import need

RATE = 16_000
GAP = 2  # white pixels between the frames of a strip
Kind = Literal["picture", "strip", "sound", "words"]


class Part(NamedTuple):
    """Something to see, hear or read: a data URI, or the words themselves."""

    kind: Kind
    content: str


def parts(modality: str, item: Any) -> list[Part]:
    """What an item of a modality looks like on a page; a composed query has two parts."""
    if modality == "image+text":
        picture, words = item
        return [*parts("image", picture), *parts("text", words)]
    if modality == "text":
        return [Part("words", item)]
    if modality == "audio":
        return [Part("sound", _sound(item))]
    if modality == "video":
        return [Part("strip", _picture(_side_by_side(item)))]
    return [Part("picture", _picture(item))]


def _side_by_side(frames: Any) -> NDArray[np.uint8]:
    spaced = np.pad(np.asarray(frames), ((0, 0), (0, 0), (0, GAP), (0, 0)), constant_values=255)
    return np.concatenate(spaced, axis=1)[:, :-GAP]


def _picture(pixels: Any) -> str:
    stored = BytesIO()
    Image.fromarray(np.asarray(pixels)).save(stored, "PNG")
    return _uri("image/png", stored)


def _sound(samples: Any) -> str:
    stored = BytesIO()
    soundfile = need("soundfile", "lab", "sounds on a page")
    soundfile.write(stored, np.asarray(samples), RATE, format="WAV", subtype="PCM_16")
    return _uri("audio/wav", stored)


def _uri(kind: str, stored: BytesIO) -> str:
    return f"data:{kind};base64,{b64encode(stored.getvalue()).decode()}"
