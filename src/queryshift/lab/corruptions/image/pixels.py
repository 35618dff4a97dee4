"""What every image corruption shares: RGB bytes in, RGB bytes out, whatever was handed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

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
