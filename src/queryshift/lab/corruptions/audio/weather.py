"""Synthetic rain, thunder and wind: `(count, rate, rng) -> noise`, at no particular level."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .synthesis import Curve, Floats, coloured, scatter, slow, unit

RAIN: Curve = ((40, -4), (90, 1), (180, -4), (370, -5), (750, -3), (1500, 1), (3000, 0), (6000, -7),
               (16000, -29))  # fmt: skip
RUMBLE: Curve = ((15, -28), (60, -7), (150, 0), (300, -3), (800, -20), (3000, -38), (9000, -60))
CRACK: Curve = ((60, -8), (250, 0), (1200, -4), (4000, -11), (9000, -24), (16000, -40))
AIR: Curve = ((15, -6), (50, 0), (120, -3), (500, -13), (1500, -27), (5000, -38), (16000, -52))
HOWL: Curve = ((60, -40), (250, -12), (450, 0), (700, -6), (1500, -22), (6000, -40), (16000, -60))

DROPS_PER_S, DROP_S = 120, 0.012
SECONDS_BETWEEN_STRIKES = 8.0


def rain(count: int, rate: int, rng: Generator) -> Floats:
    """A steady hiss with single drops in it."""
    hiss = coloured(count, rate, rng, RAIN) * (1 + 0.1 * slow(count, rate, rng, 2))
    drops = rng.poisson(DROPS_PER_S * count / rate)
    starts = rng.integers(0, count, drops)
    pitch = rng.uniform(0.05, 0.2, drops) * min(rate, 32_000)
    loudness = rng.lognormal(0.0, 0.6, drops)
    time = np.arange(int(DROP_S * rate) + 1) / rate
    ring = np.sin(2 * np.pi * pitch[:, None] * time) * np.exp(-time / (DROP_S / 5))
    scatter(hiss, starts, (loudness[:, None] * ring).astype(np.float32))
    return hiss


def thunder(count: int, rate: int, rng: Generator) -> Floats:
    """Strikes: a crack, then a rumble that rolls away in echoes, over faint rain."""
    seconds = count / rate
    time = np.arange(count, dtype=np.float32) / np.float32(rate)
    rolling, cracking = np.full(count, 0.03, np.float32), np.zeros(count, np.float32)
    for strike in range(max(1, round(seconds / SECONDS_BETWEEN_STRIKES))):
        start = min(strike * SECONDS_BETWEEN_STRIKES, seconds) + rng.uniform(0, 0.3) * seconds
        force = rng.uniform(0.5, 1.0)
        _burst(cracking, time, start, force, rng.uniform(0.06, 0.15))
        for echo in range(rng.integers(4, 8)):
            delay = rng.uniform(0, 0.7) * (1 + echo)
            _burst(rolling, time, start + delay, force * 0.75**echo, rng.uniform(0.3, 1.2))
    rumble = coloured(count, rate, rng, RUMBLE) * (1 + 0.3 * slow(count, rate, rng, 6))
    crack = coloured(count, rate, rng, CRACK)
    storm: Floats = rolling * rumble + 2 * cracking * crack
    return storm + 0.02 * coloured(count, rate, rng, RAIN)


def _burst(envelope: Floats, time: Floats, start: float, force: float, decay: float) -> None:
    """Add a blow at `start` that dies away with time constant `decay`, in place."""
    first = int(np.searchsorted(time, start))
    since = time[first:] - np.float32(start)
    envelope[first:] += (
        np.float32(force)
        * np.exp(since / np.float32(-decay))
        * np.minimum(since / np.float32(0.01), 1)
    )


def wind(count: int, rate: int, rng: Generator) -> Floats:
    """Low buffeting that swells in gusts, which also make it howl."""
    gust = slow(count, rate, rng, 0.7) + 0.3 * slow(count, rate, rng, 4)
    air = coloured(count, rate, rng, AIR) * np.exp(0.3 * gust)
    howl = coloured(count, rate, rng, HOWL) * np.exp(0.7 * gust)
    return unit(air) + 0.4 * unit(howl)
