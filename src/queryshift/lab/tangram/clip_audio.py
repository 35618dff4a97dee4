"""What is heard: a voice for each shape, knocks, chimes, and the air of each background."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
SLOT = 2048  # samples that one frame lasts
Waveform = NDArray[np.float32]

# Strength of each overtone of a shape's voice, the fundamental first.
VOICES = {
    "circle": (1.0,),
    "square": (1.0, 0.0, 0.6, 0.0, 0.45, 0.0, 0.35),
    "triangle": (1.0, 0.0, 0.0, 0.8),
    "star": (0.5, 0.7, 0.9, 0.7, 0.5, 0.4, 0.3),
    "cross": (0.3, 1.0, 0.0, 0.0, 0.0, 0.8),
    "heart": (1.0, 0.7, 0.4),
    "moon": (0.2, 0.0, 1.0),
    "arrow": (0.6, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.7),
}
_TABLE = 2048  # samples of one cycle, a power of two
_OCTAVES = {"small": 740.0, "medium": 370.0, "large": 185.0}


@cache
def _cycle(shape: str) -> Waveform:
    turn = np.arange(_TABLE) * (2 * np.pi / _TABLE)
    wave = np.zeros(_TABLE)
    for overtone, part in enumerate(VOICES[shape], start=1):
        wave += part * np.sin(overtone * turn)
    return np.asarray(wave / np.abs(wave).max(), np.float32)


@cache
def _times(frames: int) -> Waveform:
    """When each sample falls, counted in frames from the middle of the first."""
    return np.arange(0.5, frames * SLOT, dtype=np.float32) / np.float32(SLOT) - np.float32(0.5)


def voice(shape: str, size: str, heights: Waveform, loud: Waveform) -> Waveform:
    """A shape singing: higher where it is higher, an octave lower the larger it is.

    `heights` (0 to 1) and `loud` have one value per frame.
    """
    pitches = _OCTAVES[size] * np.exp2(heights)
    pitch = np.interp(_times(len(heights)), np.arange(len(heights)), pitches)
    phase = np.cumsum(pitch * (_TABLE / RATE)).astype(np.int32) & (_TABLE - 1)
    sung: Waveform = _cycle(shape)[phase] * np.repeat(loud, SLOT)
    return sung


@cache
def _knock() -> Waveform:
    time = np.arange(SLOT // 2) / RATE
    thud = np.sin(2 * np.pi * 110 * time) + 0.8 * np.random.RandomState(3).uniform(-1, 1, len(time))
    return (thud * np.exp(-time * 60)).astype(np.float32)


@cache
def _chime() -> Waveform:
    time = np.arange(SLOT) / RATE
    ring = np.sin(2 * np.pi * 3100 * time) + 0.6 * np.sin(2 * np.pi * 4650 * time)
    return (ring * np.exp(-time * 25)).astype(np.float32)


def strike(wave: Waveform, frames: list[int], kind: str) -> None:
    """Add a knock or a chime at the start of each of these frames."""
    sound = _knock() if kind == "knock" else _chime()
    for frame in frames:
        start = frame * SLOT
        wave[start : start + len(sound)] += 0.7 * sound


AIRS = {"white": 0.0, "grey": 0.02, "cream": 0.05, "mint": 0.08, "sky": 0.0, "lilac": 0.0}
_HUMS = {"sky": 60.0, "lilac": 5600.0}


@cache
def air(background: str, count: int) -> Waveform:
    """The sound of the place: silence, hisses of three strengths, a low hum, a high whine."""
    wave = AIRS[background] * np.random.RandomState(11).uniform(-1, 1, count)
    if background in _HUMS:
        wave += 0.15 * np.sin(np.arange(count) * (2 * np.pi * _HUMS[background] / RATE))
    return wave.astype(np.float32)
