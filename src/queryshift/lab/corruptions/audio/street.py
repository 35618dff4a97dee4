"""Synthetic crowd and traffic: `(count, rate, rng) -> noise`, at no particular level."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.random import Generator

from .synthesis import Curve, Floats, coloured, fast_length, gains, slow, unit

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
