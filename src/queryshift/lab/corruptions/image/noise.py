"""Sensor noise: every colour value is drawn given its clean value.

So each kind is one table, `table[value, quantile]`, over 4,096 equally likely quantiles.
"""

from __future__ import annotations

from functools import cache
from math import lgamma
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ..corruption import at
from .pixels import Pixels, looked_up, on_images, to_bytes

_QUANTILES = (np.arange(4096) + 0.5) / 4096
_VALUES = np.arange(256.0)[:, None]


@on_images
def gaussian_noise(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Low light: normal noise of one size everywhere."""
    return _drawn(_gaussian(at(severity, (0.08, 0.12, 0.18, 0.26, 0.38))), image, rng)


@on_images
def shot_noise(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Few photons: Poisson counts, white being `photons` of them."""
    return _drawn(_shot(at(severity, (60, 25, 12, 5, 3))), image, rng)


@on_images
def impulse_noise(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Dead and stuck sensor cells: salt and pepper on single colour values."""
    return _drawn(_impulse(at(severity, (0.03, 0.06, 0.09, 0.17, 0.27))), image, rng)


@on_images
def speckle_noise(image: Pixels, severity: int, rng: Generator) -> Pixels:
    """Normal noise in proportion to the brightness."""
    return _drawn(_speckle(at(severity, (0.15, 0.2, 0.35, 0.45, 0.6))), image, rng)


def _drawn(table: Pixels, image: Pixels, rng: Generator) -> Pixels:
    columns = rng.integers(1 << 16, size=image.shape, dtype=np.uint16) >> 4
    return looked_up(table, image, columns)


@cache
def _gaussian(sigma: float) -> Pixels:
    return to_bytes(_VALUES + 255 * sigma * _normal())


@cache
def _speckle(sigma: float) -> Pixels:
    return to_bytes(_VALUES + _VALUES * sigma * _normal())


@cache
def _impulse(amount: float) -> Pixels:
    table = np.repeat(_VALUES.astype(np.uint8), len(_QUANTILES), axis=1)
    table[:, amount / 2 > _QUANTILES] = 0
    table[:, 1 - amount / 2 < _QUANTILES] = 255
    return table


@cache
def _shot(photons: int) -> Pixels:
    counts = np.arange(photons + 1)  # larger counts are white too
    log_factorials = np.array([lgamma(count + 1) for count in counts])
    rates = np.maximum(_VALUES / 255 * photons, 1e-12)
    cumulative = np.exp(counts * np.log(rates) - rates - log_factorials).cumsum(axis=1)
    drawn = np.stack([row.searchsorted(_QUANTILES) for row in cumulative])
    return to_bytes(drawn * (255 / photons))


@cache
def _normal() -> npt.NDArray[np.float64]:
    return np.array([NormalDist().inv_cdf(quantile) for quantile in _QUANTILES])
