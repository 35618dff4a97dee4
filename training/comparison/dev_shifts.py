"""Shifts of the development world: none of them is among those that are reported."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.random import Generator

from queryshift.corruptions import both, one_of
from queryshift.corruptions.video import per_frame

LEVEL = (0.3, 0.45, 0.6, 0.75, 0.9)
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {a: b for row in ROWS for a, b in zip(row, row[1:] + row[-2], strict=True)}


def gamma(image: Any, severity: int, rng: Generator) -> Any:
    """Everything darker, by a power."""
    power = 1 + 4 * LEVEL[severity - 1]
    return (255 * (image / 255.0) ** power).round().astype(np.uint8)


def tint(image: Any, severity: int, rng: Generator) -> Any:
    """A coloured light over everything."""
    light = rng.uniform(0, 255, 3)
    share = 0.8 * LEVEL[severity - 1]
    return ((1 - share) * image + share * light).round().astype(np.uint8)


def soften(image: Any, severity: int, rng: Generator) -> Any:
    """A round Gaussian blur."""
    return cv2.GaussianBlur(image, (0, 0), 3.0 * LEVEL[severity - 1])


def keyboard(text: str, severity: int, rng: Generator) -> str:
    """Letters hit beside their key."""
    share = 0.25 * LEVEL[severity - 1]
    return "".join(NEIGHBOURS.get(c, c) if rng.random() < share else c for c in text)


def stutter(text: str, severity: int, rng: Generator) -> str:
    """Letters typed twice."""
    share = 0.4 * LEVEL[severity - 1]
    return "".join(c + c if c.isalpha() and rng.random() < share else c for c in text)


def no_vowels(text: str, severity: int, rng: Generator) -> str:
    """Vowels left out, as in a hurried message."""
    share = 0.6 * LEVEL[severity - 1]
    return "".join("" if c in "aeiou" and rng.random() < share else c for c in text) or text


def hum(wave: Any, severity: int, rng: Generator) -> Any:
    """Mains hum with overtones, as loud as the sound or less."""
    time = np.arange(len(wave)) / 16_000
    tones = sum(np.sin(2 * np.pi * 50 * k * time + rng.uniform(0, 6)) / k for k in range(1, 8))
    loudness = np.sqrt(np.mean(wave**2) / np.mean(tones**2))
    return (wave + 1.5 * LEVEL[severity - 1] * loudness * tones).astype(np.float32)


def muffled(wave: Any, severity: int, rng: Generator) -> Any:
    """Behind a wall: the high part taken away."""
    spectrum = np.fft.rfft(wave)
    kept = int(len(spectrum) * (1 - LEVEL[severity - 1]) ** 2)
    spectrum[kept:] *= 0.02
    return np.fft.irfft(spectrum, len(wave)).astype(np.float32)


def pink(wave: Any, severity: int, rng: Generator) -> Any:
    """Noise of equal loudness in every octave."""
    spectrum = np.fft.rfft(rng.normal(size=len(wave)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), len(wave))
    loudness = np.sqrt(np.mean(wave**2) / np.mean(noise**2))
    return (wave + LEVEL[severity - 1] * loudness * noise).astype(np.float32)


_FRAMES = tuple(per_frame(one) for one in (gamma, tint, soften))
DEV = {
    "image": (gamma, tint, soften),
    "text": (keyboard, stutter, no_vowels),
    "video": _FRAMES,
    "audio": (hum, muffled, pink),
    "composed": (both(gamma, keyboard), both(tint, stutter), both(soften, no_vowels)),
}


def dev_shift(task: str, name: str) -> Any:
    """One of the task's three, or "mixed": one drawn for each query."""
    return one_of(*DEV[task]) if name == "mixed" else DEV[task][int(name)]
