"""What every synthetic noise is made of: coloured noise, slow curves and grains."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Curve = tuple[tuple[float, float], ...]  # (Hz, dB) points, straight lines over log frequency
SILENT_DB = -200.0
_ODD_FACTORS: tuple[int, ...] = tuple(
    3**threes * 5**fives for threes in range(5) for fives in range(5)
)


def coloured(count: int, rate: int, rng: Generator, curve: Curve) -> Floats:
    """Gaussian noise of unit power whose spectral density follows `curve`."""
    padded = fast_length(count)
    spectrum = rng.standard_normal((padded // 2 + 1, 2), dtype=np.float32).view(np.complex64)[:, 0]
    spectrum *= gains(padded, rate, curve)
    wave = np.fft.irfft(spectrum, padded)[:count]
    return unit(wave.astype(np.float32, copy=False))


def fast_length(count: int) -> int:
    """The least length from `count` on that transforms quickly: a product of 2s, 3s and 5s."""
    return min(odd << (-(-max(count, 2) // odd) - 1).bit_length() for odd in _ODD_FACTORS)


@lru_cache(maxsize=32)
def gains(count: int, rate: int, curve: Curve) -> Floats:
    """The amplitude of each frequency of a transform of `count` samples; no constant part."""
    points, levels = np.log([hertz for hertz, _ in curve]), [level for _, level in curve]
    frequencies = np.fft.rfftfreq(count, 1 / rate)
    frequencies[0] = frequencies[1]
    level = np.interp(np.log(frequencies), points, levels)
    level[0] = SILENT_DB
    amplitudes: Floats = np.power(10.0, level / 20, dtype=np.float32)
    return amplitudes


def slow(count: int, rate: int, rng: Generator, per_second: float) -> Floats:
    """A smooth random curve of about unit deviation with `per_second` turning points a second."""
    knots = rng.standard_normal(int(count / rate * per_second) + 3, dtype=np.float32)
    place = np.arange(count, dtype=np.float32) * np.float32(per_second / rate)
    ease = place % 1
    ease *= ease * (3 - 2 * ease)
    left = place.astype(np.intp)
    return knots[left] + ease * (knots[left + 1] - knots[left])


def scatter(wave: Floats, starts: NDArray[np.intp], grains: Floats) -> None:
    """Add one row of `grains` to `wave` at each of `starts`, in place; what hangs over is cut."""
    places = starts[:, None] + np.arange(grains.shape[1])
    inside = places < len(wave)
    np.add.at(wave, places[inside], grains[inside])


def unit(wave: Floats) -> Floats:
    """`wave` at unit power; silence stays silence."""
    power = float(np.sqrt(np.mean(np.square(wave, dtype=np.float64)))) if len(wave) else 0.0
    return wave / np.float32(power) if power > 0 else wave
