"""Pictures, texts and sounds as people hand them over, as a model's processor takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from queryshift.errors import BadFile, BadInput

CHANNELS = (1, 3, 4)  # grey, RGB, RGB with opacity
USUAL_RATE = 16_000  # of a plain array of samples, which does not say


def rgb(item: Any) -> Image.Image:
    """A picture in RGB: from a PIL image of any 8-bit mode, an array (H, W[, C]) or a file."""
    if isinstance(item, (str, Path)):
        item = _opened(item)
    if not isinstance(item, Image.Image):
        item = Image.fromarray(_eight_bit(np.asarray(item)))
    if item.mode.startswith(("I", "F")):
        raise BadInput(
            f"got a picture of mode {item.mode}, whose range of values is not known: "
            "scale it to 8 bits a channel first."
        )
    if 0 in item.size:
        raise BadInput(f"got a picture of {item.width} x {item.height} pixels: leave it out.")
    picture: Image.Image = item.convert("RGB")
    return picture


def _opened(path: str | Path) -> Image.Image:
    """The picture of a file, upright, as datasets are read too."""
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image)
    except FileNotFoundError:
        raise BadFile(
            f'there is no picture "{path}": give the path of one, a PIL image or an array.'
        ) from None
    except Exception as error:  # a decoder may raise anything on a damaged file
        raise BadFile(
            f'"{path}" cannot be read as a picture ({error}): repair it, or leave it out.'
        ) from error


def _eight_bit(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """8-bit pixels from 8-bit ones, or from floats between 0 and 1."""
    if pixels.ndim == 2 and pixels.shape[1] in CHANNELS:
        raise BadInput(
            f"got an array of shape {pixels.shape}, one row of a picture that was given as the "
            "batch? Give [picture]; a grey picture so narrow as (height, width, 1)."
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in CHANNELS):
        raise BadInput(
            f"got a picture of shape {pixels.shape}; expected a PIL image, or an array of shape "
            "(height, width), (height, width, 3) or (height, width, 4)."
        )
    if pixels.dtype == np.uint8:
        return np.asarray(pixels)
    if pixels.dtype.kind != "f" or (pixels.size and not 0 <= pixels.min() <= pixels.max() <= 1):
        raise BadInput(
            f"got a picture of {pixels.dtype} values; expected 8-bit ones (0 to 255), or floats "
            "from 0 to 1."
        )
    return np.asarray(np.rint(pixels * 255), np.uint8)


def texts(items: Sequence[Any]) -> list[str]:
    """Texts as they are, or an error that names the first item that is none."""
    for place, item in enumerate(items):
        if not isinstance(item, str):
            raise BadInput(
                f"item {place} is of type {type(item).__name__}, expected a text: a string."
            )
        try:
            item.encode()
        except UnicodeEncodeError as error:
            raise BadInput(
                f"item {place} holds {item[error.start]!r}, half a character, which no tokenizer "
                "takes: read the text as UTF-8, or leave such characters out."
            ) from None
    return list(items)


def pairs(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The pictures and the texts of composed queries, which are pairs of them."""
    for place, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise BadInput(
                f"item {place} is of type {type(item).__name__}, expected a composed query: a pair "
                "(picture, text)."
            )
    return [picture for picture, _ in items], [text for _, text in items]


def check_clips(items: Sequence[Any]) -> None:
    """Refuse what is no sequence of pictures: a film's name, or the frames of one clip."""
    for place, item in enumerate(items):
        if isinstance(item, str | Path) or not hasattr(item, "__len__"):
            raise BadInput(
                f"item {place} is of type {type(item).__name__}, expected a clip: a sequence of "
                "pictures. read_frames(path) of queryshift.corruptions.files.films gives ten of a "
                "film."
            )
        if getattr(item, "ndim", 4) == 3 and item.shape[2] == 3:
            raise BadInput(
                f"item {place} is one picture, expected a clip: for one clip give [clip]."
            )


def sound(item: Any, rate: int) -> NDArray[np.float32]:
    """Mono samples at `rate`: from an array at 16 kHz, or an object with `samples` and `rate`."""
    samples = _numbers(getattr(item, "samples", item))
    came_at = int(getattr(item, "rate", USUAL_RATE))
    if samples.dtype.kind == "i":
        samples = samples / (np.iinfo(samples.dtype).max + 1.0)
    if samples.ndim != 1 or samples.size == 0 or samples.dtype.kind != "f" or came_at < 1:
        raise BadInput(
            f"got a sound of shape {samples.shape} and type {samples.dtype} at {came_at} Hz; "
            "expected one channel of samples, floats from -1 to 1 or whole numbers: mix the "
            "channels down first."
        )
    return _resample(samples, came_at, rate).astype(np.float32)


def _numbers(samples: Any) -> NDArray[Any]:
    """Samples as an array, refused where they are none: a pair with the rate, a file's name."""
    try:
        found = np.asarray(samples)
    except (TypeError, ValueError):  # of several shapes, or on a GPU
        found = np.asarray(None)
    if found.dtype.kind in "OUS":
        raise BadInput(
            f"got a {type(samples).__name__} as a sound, expected one channel of samples at 16 kHz;"
            " at another rate give Waveform(samples, rate) of queryshift.corruptions.audio."
        )
    return found


def _resample(samples: NDArray[Any], old: int, new: int) -> NDArray[Any]:
    """The same sound at another rate, by its Fourier series: exact up to the lower band."""
    if old == new:
        return samples
    length = max(1, round(len(samples) * new / old))
    kept = min(len(samples), length) // 2 + 1
    changed = np.fft.irfft(np.fft.rfft(samples)[:kept], length) * (length / len(samples))
    return np.asarray(changed)
