"""What image corruptions share: RGB bytes in and out, zooming, smearing along a line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import ceil, cos, exp, radians, sin
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from PIL import Image

from queryshift.errors import BadInput

from ..corruption import Corruption, check_severity

Pixels: TypeAlias = npt.NDArray[Any]  # (H, W, 3), uint8; OpenCV's stubs name no dtype
Floats: TypeAlias = npt.NDArray[Any]  # float32
Compute: TypeAlias = Callable[[Pixels, int, Generator], Pixels]

_EIGHT_BIT_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")


def on_images(compute: Compute) -> Corruption:
    """Make a function of RGB bytes a corruption of arrays and of Pillow images alike."""

    @wraps(compute)
    def corruption(item: Any, severity: int, rng: Generator, /) -> Any:
        return apply(compute, item, severity, rng)

    return corruption


def apply(compute: Compute, item: Any, severity: int, rng: Generator) -> Any:
    """Run `compute` on the RGB bytes of `item`; a Pillow image gives a Pillow image."""
    result = compute(rgb(item), check_severity(severity), rng)
    return Image.fromarray(result) if isinstance(item, Image.Image) else result


def rgb(item: Any) -> Pixels:
    """`item` as contiguous RGB bytes: grey is tripled, an alpha channel dropped, 16 bit refused."""
    array = _decoded(item) if isinstance(item, Image.Image) else item
    if not isinstance(array, np.ndarray):
        raise BadInput(f"an image is a numpy array or a Pillow image; got {type(item).__name__}.")
    if array.dtype != np.uint8:
        raise BadInput(
            f"image values are {array.dtype}; expected 8 bit (uint8, 0 to 255): rescale to that "
            "range and convert with .astype(numpy.uint8) first."
        )
    grey = array[..., None] if array.ndim == 2 else array
    if grey.ndim != 3 or grey.shape[2] not in (1, 3, 4) or 0 in grey.shape:
        raise BadInput(
            f"image has the shape {array.shape}; expected (height, width) or (height, width, "
            "channels) with 1, 3 or 4 channels and at least one pixel."
        )
    three: Pixels = grey.repeat(3, axis=2) if grey.shape[2] == 1 else grey[..., :3]
    return np.ascontiguousarray(three)


def to_bytes(values: npt.NDArray[Any]) -> Pixels:
    """Grey levels clipped to 0..255; the fraction is cut off, as the published scripts do."""
    return values.clip(0, 255).astype(np.uint8)


def looked_up(table: Pixels, rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> Pixels:
    """`table[rows, columns]`, several times faster than numpy's own two-index form."""
    index = np.multiply(rows, table.shape[1], dtype=np.intp) + columns
    found: Pixels = table.ravel().take(index)
    return found


def _decoded(image: Image.Image) -> Pixels:
    if image.mode not in _EIGHT_BIT_MODES:
        raise BadInput(
            f'image mode is "{image.mode}"; expected 8 bit per channel, such as "RGB" or "L": '
            "rescale to 0..255 and convert it first."
        )
    return np.asarray(image.convert("RGB"))


Array: TypeAlias = npt.NDArray[Any]


def zoomed(layer: Array, factor: float, shape: tuple[int, ...]) -> Array:
    """The middle of `layer`, magnified `factor` times and cut to `shape`.

    Like an order-1 spline zoom of the smallest crop that fills `shape`, trimmed evenly.
    """
    scale_y, start_y = _sampling(layer.shape[0], shape[0], factor)
    scale_x, start_x = _sampling(layer.shape[1], shape[1], factor)
    matrix = np.array([[scale_x, 0, start_x], [0, scale_y, start_y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = (shape[1], shape[0])
    return cv2.warpAffine(layer, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)


def cropped_side(side: int, factor: float) -> int:
    """How many pixels of a side fill the whole side after magnifying them."""
    return ceil(side / factor)


def smeared(image: Array, radius: int, sigma: float, angle: float) -> Floats:
    """Motion blur: a one-sided Gaussian of 2 radius + 1 points along `angle` (degrees).

    A sum of shifted copies: three times faster than one filter with the same, mostly empty, kernel.
    """
    height, width = image.shape[:2]
    frame = 2 * radius
    borders = (frame, frame, frame, frame)
    framed = cv2.copyMakeBorder(image.astype(np.float32), *borders, cv2.BORDER_REPLICATE)
    total = np.zeros(image.shape, np.float32)
    for row, column, weight in _stroke(radius, sigma, radians(angle), (height, width)):
        top, left = frame + row, frame + column
        cv2.scaleAdd(framed[top : top + height, left : left + width], weight, total, dst=total)
    return total


def _sampling(have: int, want: int, factor: float) -> tuple[float, float]:
    """Step and start, in pixels of the layer, of the samples along one side."""
    crop = cropped_side(want, factor)
    enlarged = max(round(crop * factor), want)
    step = (crop - 1) / max(enlarged - 1, 1)
    return step, (have - crop) // 2 + (enlarged - want) // 2 * step


def _stroke(
    radius: int, sigma: float, angle: float, shape: tuple[int, int]
) -> list[tuple[int, int, float]]:
    """Row, column and weight of each point that stays within a picture of `shape`."""
    points = [
        (ceil(i * sin(angle) - 0.5), ceil(i * cos(angle) - 0.5), exp(-(i**2) / (2 * sigma**2)))
        for i in range(2 * radius + 1)
    ]
    inside = [point for point in points if abs(point[0]) < shape[0] and abs(point[1]) < shape[1]]
    total = sum(weight for _, _, weight in inside)
    return [(row, column, weight / total) for row, column, weight in inside]
