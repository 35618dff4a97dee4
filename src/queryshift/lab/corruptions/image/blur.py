"""Lens and motion: defocus, frosted glass, a moving camera, zooming in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ..corruption import at
from .pixels import Floats, Pixels, on_images, smeared, to_bytes, zoomed

GLASS = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
ZOOMS = (
    tuple(1 + 0.01 * step for step in range(12)),
    tuple(1 + 0.01 * step for step in range(16)),
    tuple(1 + 0.02 * step for step in range(11)),
    tuple(1 + 0.02 * step for step in range(13)),
    tuple(1 + 0.03 * step for step in range(11)),
)


@on_images
def defocus_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Out of focus: every point becomes a disk."""
    radius, softness = at(severity, ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)))
    return to_bytes(cv2.filter2D(image.astype(np.float32), -1, _disk(radius, softness)))


@on_images
def glass_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Frosted glass: pixels take over their neighbours' colours between two soft blurs."""
    sigma, reach, rounds = at(severity, GLASS)
    soft = soft_blur(image, sigma)
    rows, columns = (slice(reach + 1, max(side - reach + 1, 0)) for side in image.shape[:2])
    for _ in range(rounds):
        soft = shuffled(soft, reach, (rows, columns), rng)
    return soft_blur(soft, sigma)


@on_images
def motion_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """A camera that moved, within 45 degrees of the horizontal."""
    radius, sigma = at(severity, ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)))
    return to_bytes(smeared(image, radius, sigma, rng.uniform(-45, 45)))


@on_images
def zoom_blur(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """A camera that moved towards its subject: the mean of the image and its magnifications."""
    return zoom_mean(image, at(severity, ZOOMS))


def soft_blur(image: Pixels, sigma: float) -> Pixels:
    """Gaussian blur cut off at four sigma."""
    side = 2 * int(4 * sigma + 0.5) + 1
    return cv2.GaussianBlur(image, (side, side), sigma, borderType=cv2.BORDER_REPLICATE)


def zoom_mean(image: Pixels, factors: Sequence[float]) -> Pixels:
    """The mean of the image and its magnifications; factor 1 counts once more, as published."""
    total = image.astype(np.float32)
    source = total.copy()
    for factor in factors:
        total += source if factor == 1 else zoomed(source, factor, image.shape)
    return to_bytes(total / (len(factors) + 1))


@cache
def _disk(radius: int, softness: float) -> Floats:
    reach = max(radius, 8)
    steps = np.arange(-reach, reach + 1) ** 2
    disk = (steps[:, None] + steps <= radius**2).astype(np.float32)
    side = 3 if radius <= 8 else 5
    soft: Floats = cv2.GaussianBlur(disk / disk.sum(), (side, side), softness)
    empty = max(reach - radius - 1, 0)
    return soft[empty : len(soft) - empty, empty : len(soft) - empty].copy()


def shuffled(image: Pixels, reach: int, scanned: tuple[slice, slice], rng: Generator) -> Pixels:
    """One scan of the published shuffle over a rectangle, from its last pixel to its first.

    There a pixel p takes the colour that pixel p + offset has at that moment: the original one if
    the scan has not come by, else what that pixel took. The second case makes chains, and all of
    them are followed at once, doubling the distance each time.
    """
    height, width = image.shape[:2]
    source = np.arange(height * width).reshape(height, width)
    visited = np.zeros((height, width), bool)
    steps = rng.integers(-reach, reach, size=(2, *source[scanned].shape), dtype=np.int8)
    source[scanned] += steps[0].astype(np.int64) * width + steps[1]
    visited[scanned] = True
    return image.reshape(-1, 3)[_followed(source.ravel(), visited.ravel())].reshape(image.shape)


def _followed(
    source: npt.NDArray[np.int64], visited: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    taken = visited[source] & (source > np.arange(len(source)))  # its colour was itself taken
    waiting = np.flatnonzero(taken)
    while len(waiting):
        via = source[waiting]
        source[waiting] = source[via]
        still = taken[via]
        taken[waiting] = still
        waiting = waiting[still]
    return source
