"""Snow, fog and brightness; fog is a cloudy height map (diamond-square)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import Generator

from ..corruption import at
from .pixels import Floats, Pixels, cropped_side, looked_up, on_images, smeared, to_bytes, zoomed


def plasma(side: int, decay: float, rng: Generator) -> Floats:
    """A map of `side` x `side` heights in [0, 1] that joins at its edges; `side` a power of two.

    Each level halves the grid: centres first, then the middles of the edges, every new point the
    mean of its four neighbours and a random step whose size falls by `decay` squared per level.
    """
    heights = np.zeros((1, 1), np.float32)
    size = 100.0
    while len(heights) < side:
        heights = _refined(heights, size**2, rng)
        size /= decay
    heights -= heights.min()
    return heights / max(float(heights.max()), 1e-6)


def _refined(corners: Floats, step: float, rng: Generator) -> Floats:
    count = len(corners)
    steps = rng.random((3, count, count), dtype=np.float32)
    steps -= 0.5
    steps *= 2 * step
    right, below = np.roll(corners, -1, axis=1), np.roll(corners, -1, axis=0)
    centres = (corners + right + below + np.roll(right, -1, axis=0)) / 4 + steps[0]
    finer = np.empty((2 * count, 2 * count), np.float32)
    finer[::2, ::2] = corners
    finer[1::2, 1::2] = centres
    finer[::2, 1::2] = (corners + right + centres + np.roll(centres, 1, axis=0)) / 4 + steps[1]
    finer[1::2, ::2] = (corners + below + centres + np.roll(centres, 1, axis=1)) / 4 + steps[2]
    return finer


class _Snow(NamedTuple):
    mean: float
    spread: float
    zoom: float
    threshold: float
    radius: int
    sigma: float
    mix: float  # what remains of the image under the white veil


_SNOW = (
    _Snow(0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    _Snow(0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    _Snow(0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    _Snow(0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    _Snow(0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
)
_FOG = ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))


@on_images
def snow(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Flakes falling both ways over a whitened image."""
    return snowed(image, severity, rng, cv2.COLOR_RGB2GRAY)


@on_images
def fog(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Drifting clouds of light."""
    return fogged(image, severity, rng, least_side=1)


@on_images
def brightness(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Glaring light: the largest channel of every pixel rises, hue and saturation stay."""
    table = _brighter(at(severity, (0.1, 0.2, 0.3, 0.4, 0.5)))
    largest = cv2.max(cv2.max(image[..., 0], image[..., 1]), image[..., 2])
    return looked_up(table, largest[..., None], image)


def snowed(image: Pixels, severity: int, rng: Generator, grey_code: int) -> Pixels:
    """Snow over an image whose grey, for the white veil, is OpenCV's conversion `grey_code`."""
    setting = at(severity, _SNOW)
    flakes = _flakes(image.shape, setting, rng)
    fallen = flakes + flakes[::-1, ::-1]
    grey = cv2.cvtColor(image, grey_code).astype(np.float32)
    white = (1 - setting.mix) * (1.5 * grey + 127.5)
    clean = image.astype(np.float32)
    veiled = np.maximum(clean, setting.mix * clean + white[..., None])
    return to_bytes(veiled + fallen[..., None])


def fogged(image: Pixels, severity: int, rng: Generator, least_side: int) -> Pixels:
    """Fog from the top left corner of a cloud map of at least `least_side` points a side."""
    amount, decay = at(severity, _FOG)
    height, width = image.shape[:2]
    side = 1 << (max(height, width, least_side) - 1).bit_length()
    clouds = plasma(side, decay, rng)[:height, :width, None]
    brightest = int(image.max())
    fade = brightest / (brightest + 255 * amount)
    return to_bytes((image + 255 * amount * clouds) * np.float32(fade))


def _flakes(shape: tuple[int, ...], setting: _Snow, rng: Generator) -> Floats:
    height, width = shape[:2]
    crop = (cropped_side(height, setting.zoom), cropped_side(width, setting.zoom))
    seeds = setting.mean + setting.spread * rng.standard_normal(crop, np.float32)
    layer = zoomed(seeds, setting.zoom, (height, width))
    layer[layer < setting.threshold] = 0
    flakes = 255 * np.clip(layer, 0, 1)
    return smeared(flakes, setting.radius, setting.sigma, rng.uniform(-135, -45))


@cache
def _brighter(amount: float) -> Pixels:
    """`table[largest channel, value]`: both scaled alike; black becomes grey."""
    values = np.arange(256.0)
    largest = np.maximum(values, 1e-9)[:, None]
    raised = np.minimum(largest + 255 * amount, 255)
    table = np.minimum(values, largest) * raised / largest
    table[0] = 255 * amount
    return to_bytes(np.round(table, 6))
