"""The image corruptions as in the scripts behind the published COCO and Flickr benchmarks.

Only those that differ from ImageNet-C; what they do is kept on purpose, mistakes included. The
scripts read images as BGR, which matters wherever channels are not treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.random import Generator

from ..corruption import Corruption, at
from .blur import GLASS, ZOOMS, shuffled, soft_blur, zoom_mean
from .digital import COARSENESS, QUALITIES, elastic_pixels, jpeg_coded
from .frost import Frost, sized, texture, texture_names
from .pixels import Pixels, apply, on_images
from .weather import fogged, snowed

_ZOOMS = (*ZOOMS[:4], (*ZOOMS[4], 1.33))


@on_images
def glass_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Two soft blurs; the loops overwrite their own bounds, so that one row at most is shuffled."""
    sigma, reach, _ = at(severity, GLASS)
    soft = soft_blur(image, sigma)
    row = min(soft.shape[0], 224) - reach
    columns = slice(reach + 1, min(soft.shape[1], 224) - reach + 1)
    rows = slice(row, row + 1) if row > reach else slice(0, 0)
    return soft_blur(shuffled(soft, reach, (rows, columns), rng), sigma)


@on_images
def zoom_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """The strongest severity zooms once more, by 1.33."""
    return zoom_mean(image, at(severity, _ZOOMS))


@on_images
def snow(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """The veil's grey takes red for blue."""
    return snowed(image, severity, rng, cv2.COLOR_BGR2GRAY)


@dataclass(frozen=True)
class Fog:
    """Fog from a corner of a cloud map of fixed size: 1024 for COCO, 512 for Flickr."""

    side: int = 1024
    __name__ = "fog"

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        """Add light from the top left corner of the clouds."""
        return apply(self._fogged, item, severity, rng)

    def _fogged(self, image: Pixels, severity: int, rng: Generator) -> Pixels:
        return fogged(image, severity, rng, self.side)


@dataclass(frozen=True)
class TopLeftFrost(Frost):
    """Textures 1,800 pixels wide, always their top left corner, with red and blue exchanged.

    Of six photographs only the first five are ever drawn.
    """

    def _ice(self, shape: tuple[int, ...], rng: Generator) -> Pixels:
        names = texture_names(self.textures)[:5]
        name = names[int(rng.integers(len(names)))]
        height, width = texture(name).shape[:2]
        scale = max(1800 / width, shape[0] / height, shape[1] / width)
        return np.ascontiguousarray(sized(name, scale)[: shape[0], : shape[1], ::-1])


@on_images
def elastic(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """ImageNet-C's constants in pixels, for images of any size."""
    distorted: Pixels = elastic_pixels(image, severity, rng)
    return distorted


@on_images
def pixelate(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """A small square of fixed size, enlarged with height and width exchanged."""
    side = int(224 * at(severity, COARSENESS))
    small = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, image.shape[:2], interpolation=cv2.INTER_AREA)


@on_images
def jpeg(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Compressed with red and blue exchanged, then saved once more at quality 95."""
    swapped = np.ascontiguousarray(image[..., ::-1])
    coded = jpeg_coded(swapped, at(severity, QUALITIES))
    return jpeg_coded(np.ascontiguousarray(coded[..., ::-1]), 95)


def deviations(textures: str | Path | None, clouds: int = 1024) -> tuple[Corruption, ...]:
    """All that differ: `textures` is the folder for frost, `clouds` the side of the fog's map."""
    plain = (glass_blur, zoom_blur, snow, elastic, pixelate, jpeg)
    return (*plain, Fog(clouds), TopLeftFrost(textures))
