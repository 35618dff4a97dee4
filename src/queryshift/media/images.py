"""Images from arrays, PIL images, bytes, file objects and paths: upright, in RGB."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput
from queryshift.support.optional import need

from .item_reading import Stored, decoding, is_stored, read_each, source
from .limits import check_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
CHANNELS = (1, 3, 4)  # grey, RGB, RGB with opacity
EXPECTED = (
    "expected an image as an array (height, width[, channels]), a PIL image, bytes, a file object "
    "or a pathlib.Path"
)


def images(items: Iterable[Any]) -> list[Image]:
    """Read the images of a batch in RGB; the first bad item raises `BadItem`."""
    return read_each(items, rgb)


def rgb(item: Any) -> Image:
    """Convert an image to RGB, turned upright as its EXIF data say.

    Args:
        item: a PIL image of any 8-bit mode, an array (height, width[, channels]) of 8-bit values or
            of floats from 0 to 1, or an image file: its `pathlib.Path`, its bytes, a file object.

    Returns:
        A PIL image; a copy if you gave one.

    Example:
        >>> rgb(np.zeros((2, 5), np.uint8)).size
        (5, 2)
    """
    if isinstance(item, str):
        raise BadInput(f"{EXPECTED}; text is not opened as a path: pass pathlib.Path(...).")
    pillow = _pillow("Image")
    if is_stored(item):
        return _in_rgb(read_image(item))
    if not isinstance(item, pillow.Image):
        return _in_rgb(pillow.fromarray(_eight_bit(_array(item))))
    check_pixels(*item.size)
    with decoding(item, "an image"):  # Pillow may not have decoded it yet
        upright = _pillow("ImageOps").exif_transpose(item)
    return _in_rgb(upright)


def read_image(item: Stored) -> Image:
    """Read an image from a file or bytes: decoded, upright, in its own mode.

    Args:
        item: a `pathlib.Path` of a regular file, bytes, or a file object, whose position is
            restored.

    Returns:
        A PIL image. The size is checked before decoding.
    """
    turned = _pillow("ImageOps").exif_transpose
    with decoding(item, "an image"), _opened(item) as image:
        check_pixels(*image.size)
        return cast("Image", turned(image))


def image_size(item: Stored) -> tuple[int, int]:
    """Read width and height of an image file from its header, without decoding it.

    Args:
        item: as `read_image` takes it.
    """
    with decoding(item, "an image"), _opened(item) as image:
        return image.width, image.height


def _opened(item: Stored) -> Image:
    try:
        return cast("Image", _pillow("Image").open(source(item)))
    except _pillow("").UnidentifiedImageError:
        raise ValueError("it is of no known format") from None


@cache
def _pillow(module: str) -> Any:
    return need(f"PIL.{module}".rstrip("."), "lab", "reading images")


def _in_rgb(image: Image) -> Image:
    if image.mode.startswith(("I", "F")):
        raise BadInput(
            f"got an image of mode {image.mode}, whose range of values is not known: "
            "scale it to 8 bits a channel first."
        )
    if 0 in image.size:
        raise BadInput(f"got an image of {image.width} x {image.height} pixels: leave it out.")
    return image.convert("RGB")


def _array(item: Any) -> NDArray[Any]:
    """Convert the item to an array of numbers, or refuse it."""
    try:
        pixels = np.asarray(item)
    except Exception as error:  # ragged lists, tensors on a GPU
        raise BadInput(f"{EXPECTED} ({error}).") from error
    if pixels.dtype.kind not in "buif" or pixels.ndim == 0:
        raise BadInput(f"{EXPECTED}.")
    return pixels


def _eight_bit(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert floats between 0 and 1 to 8-bit pixels; 8-bit ones stay."""
    if pixels.ndim == 2 and pixels.shape[1] in CHANNELS:
        raise BadInput(
            f"got an array of shape {pixels.shape}, one row of an image that was given as the "
            "batch? Give [image]; a grey image so narrow as (height, width, 1)."
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in CHANNELS):
        raise BadInput(
            f"got an image of shape {pixels.shape}; expected a PIL image, or an array of shape "
            "(height, width), (height, width, 3) or (height, width, 4)."
        )
    check_pixels(pixels.shape[1], pixels.shape[0])
    if pixels.dtype == np.uint8:
        return np.asarray(pixels)
    if pixels.dtype.kind != "f" or (pixels.size and not 0 <= pixels.min() <= pixels.max() <= 1):
        raise BadInput(
            f"got an image of {pixels.dtype} values; expected 8-bit ones (0 to 255), or floats "
            "from 0 to 1."
        )
    return np.asarray(np.rint(pixels * 255), np.uint8)
