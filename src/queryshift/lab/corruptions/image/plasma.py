"""A cloudy height map by the diamond-square algorithm."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .pixels import Floats


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
