"""Synthetic crowd, traffic, rain, thunder and wind: `(count, rate, rng) -> noise`, at any level."""

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
    """Add one row of `grains` to `wave` at each of `starts`, in place; cut at the end."""
    places = starts[:, None] + np.arange(grains.shape[1])
    inside = places < len(wave)
    np.add.at(wave, places[inside], grains[inside])


def unit(wave: Floats) -> Floats:
    """`wave` at unit power; silence stays silence."""
    power = float(np.sqrt(np.mean(np.square(wave, dtype=np.float64)))) if len(wave) else 0.0
    return wave / np.float32(power) if power > 0 else wave


ROAD: Curve = ((20, -26), (60, -3), (130, 3), (300, -6), (700, -11), (1200, -10), (2500, -16),
               (5000, -26), (16000, -40))  # fmt: skip
TYRES: Curve = ((60, -14), (300, -8), (900, 0), (1800, -4), (4000, -15), (16000, -36))
HALL: Curve = ((60, -20), (200, 0), (500, -1), (1000, -9), (3000, -24), (8000, -36), (16000, -50))
HISS: Curve = ((500, -50), (2500, -8), (4500, 0), (7000, -6), (16000, -24))

# The first three formants in Hz of the vowels of "bat bet bit bought boot but", mean of adults.
VOWELS = ((790, 1850, 2600), (570, 1970, 2700), (430, 2200, 2750), (610, 930, 2550),
          (340, 980, 2400), (690, 1290, 2550))  # fmt: skip
FORMANT_DB, FORMANT_WIDTH_HZ = (0.0, -3.0, -10.0), (90.0, 120.0, 170.0)
VOICES, SYLLABLES_PER_S = 16, 4.5
PASSES_PER_S, HORN_CHANCE_PER_S = 0.35, 0.05


def crowd(count: int, rate: int, rng: Generator) -> Floats:
    """Babble: many voices at once, each a run of vowels in its own pitch, in a murmuring hall."""
    padded = fast_length(count)
    spoken = np.zeros((len(VOWELS), padded), np.float32)
    for _ in range(VOICES):
        _speak(spoken[:, :count], rate, rng)
    spectra = np.fft.rfft(spoken) * _formants(padded, rate)
    voices = np.fft.irfft(spectra.sum(axis=0), padded)[:count].astype(np.float32, copy=False)
    hiss = coloured(count, rate, rng, HISS) * np.maximum(slow(count, rate, rng, 9), 0)
    babble: Floats = unit(voices) + 0.35 * coloured(count, rate, rng, HALL) + 0.04 * hiss
    return babble


def _speak(spoken: Floats, rate: int, rng: Generator) -> None:
    """Add one voice to the row of each vowel it says, as glottal pulses, in place."""
    count = spoken.shape[1]
    pitch, loudness = rng.uniform(90, 240), rng.lognormal(0, 0.5)
    place = int(rng.integers(-rate // 2, 1)) if count > rate else 0
    while place < count:
        length = int(rate / SYLLABLES_PER_S * rng.uniform(0.6, 1.4)) + 2
        vowel, start, end = rng.integers(len(VOWELS)), max(place, 0), min(place + length, count)
        if rng.random() < 0.85 and end > start:  # otherwise a breath
            span = np.arange(start - place, end - place, dtype=np.float32) / np.float32(length)
            cycles = np.float32(pitch * rng.uniform(0.85, 1.2) * length / rate) * span
            cycles *= 1 - np.float32(0.06) * span  # the pitch falls
            cycles -= np.floor(cycles)
            spoken[vowel, start:end] += (0.5 - cycles) * span * (1 - span) * np.float32(loudness)
        place += length


@lru_cache(maxsize=4)
def _formants(count: int, rate: int) -> Floats:
    """The vowels' resonances over the frequencies of a transform of `count` samples."""
    frequencies = np.fft.rfftfreq(count, 1 / rate).astype(np.float32)
    bank = np.zeros((len(VOWELS), len(frequencies)), np.float32)
    for row, vowel in zip(bank, VOWELS, strict=True):
        for centre, level, width in zip(vowel, FORMANT_DB, FORMANT_WIDTH_HZ, strict=True):
            row += np.float32(10 ** (level / 20)) / (1 + np.square((frequencies - centre) / width))
    bank *= gains(count, rate, ((50, -30), (120, 0), (20_000, 0)))
    return bank


def traffic(count: int, rate: int, rng: Generator) -> Floats:
    """A road's rumble, vehicles passing with tyres and engine, now and then a horn."""
    seconds = count / rate
    time = np.arange(count, dtype=np.float32) / np.float32(rate)
    road: Floats = coloured(count, rate, rng, ROAD) * np.exp(0.12 * slow(count, rate, rng, 3))
    near = np.zeros(count, np.float32)
    for _ in range(1 + rng.poisson(PASSES_PER_S * seconds)):
        swell = _pass(time, rng.uniform(0, seconds), rng.uniform(0.5, 1.5))
        near += swell
        road += 0.5 * swell * _engine(time, rng.uniform(35, 90), rng)
    road += 0.4 * near * coloured(count, rate, rng, TYRES)
    if rng.random() < HORN_CHANCE_PER_S * seconds:
        road += _horn(time, rng.uniform(0, seconds), rng)
    return road


def _pass(time: Floats, moment: float, width: float) -> Floats:
    """How loud a vehicle is that passes the microphone at `moment`."""
    away = (time - np.float32(moment)) / np.float32(width)
    swell: Floats = 1 / (1 + np.square(away))
    return swell


def _engine(time: Floats, hertz: float, rng: Generator) -> Floats:
    """A harmonic drone whose speed drifts a little."""
    drift = 1 + 0.02 * np.float32(rng.standard_normal()) * time / max(float(time[-1]), 1.0)
    phase = np.float32(2 * np.pi * hertz) * time * drift
    drone = np.zeros_like(time)
    for harmonic in range(1, 5):
        drone += np.sin(harmonic * phase) / np.float32(harmonic)
    return drone


def _horn(time: Floats, start: float, rng: Generator) -> Floats:
    """Two reedy tones a third apart, for about half a second."""
    sounding = (time >= start) & (time < start + rng.uniform(0.2, 0.8))
    tones, base = np.zeros_like(time), rng.uniform(340, 450)
    beat = 2 * np.pi * time[sounding]
    for hertz in (base, base * 1.25):
        for harmonic in range(1, 6):
            tones[sounding] += np.sin(np.float32(harmonic * hertz) * beat) / np.float32(harmonic)
    return 0.4 * tones


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


SOUNDS = {make.__name__: make for make in (crowd, traffic, rain, thunder, wind)}
