"""Shifts of the development world: none of them is among those that are reported.

Each is so strong that the source model keeps half of its clean recall: weaker, there is nothing to
learn; stronger, nothing to learn it from. `training.comparison.strengths` finds how strong that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.random import Generator

from queryshift.lab.corruptions import Corruption, both, one_of
from queryshift.lab.corruptions.video import per_frame

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {a: b for row in ROWS for a, b in zip(row, row[1:] + row[-2], strict=True)}


def gamma(image: Any, strength: float, rng: Generator) -> Any:
    """Everything darker, by a power."""
    power = 1 + 4 * strength
    return (255 * (image / 255.0) ** power).round().astype(np.uint8)


def tint(image: Any, strength: float, rng: Generator) -> Any:
    """A coloured light over everything."""
    light = rng.uniform(0, 255, 3)
    share = 0.8 * strength
    return ((1 - share) * image + share * light).round().astype(np.uint8)


def soften(image: Any, strength: float, rng: Generator) -> Any:
    """A round Gaussian blur."""
    return cv2.GaussianBlur(image, (0, 0), 4.0 * strength)


def grain(image: Any, strength: float, rng: Generator) -> Any:
    """Grey grains of two by two pixels, all brightnesses equally likely."""
    height, width = image.shape[:2]
    grains = rng.uniform(-255, 255, (height // 2, width // 2, 1)).repeat(2, 0).repeat(2, 1)
    return (image + strength * grains).clip(0, 255).round().astype(np.uint8)


def keyboard(text: str, strength: float, rng: Generator) -> str:
    """Letters hit beside their key."""
    share = 0.25 * strength
    return "".join(NEIGHBOURS.get(c, c) if rng.random() < share else c for c in text)


def stutter(text: str, strength: float, rng: Generator) -> str:
    """Letters typed twice."""
    share = 0.4 * strength
    return "".join(c + c if c.isalpha() and rng.random() < share else c for c in text)


def no_vowels(text: str, strength: float, rng: Generator) -> str:
    """Vowels left out, as in a hurried message."""
    share = 0.6 * strength
    return "".join("" if c in "aeiou" and rng.random() < share else c for c in text) or text


def hum(wave: Any, strength: float, rng: Generator) -> Any:
    """Mains hum with overtones, as loud as the sound or less."""
    time = np.arange(len(wave)) / 16_000
    tones = sum(np.sin(2 * np.pi * 50 * k * time + rng.uniform(0, 6)) / k for k in range(1, 8))
    loudness = np.sqrt(np.mean(wave**2) / np.mean(tones**2))
    return (wave + 1.5 * strength * loudness * tones).astype(np.float32)


def muffled(wave: Any, strength: float, rng: Generator) -> Any:
    """Behind a wall: the high part taken away."""
    spectrum = np.fft.rfft(wave)
    kept = int(len(spectrum) * (1 - strength) ** 2)
    spectrum[kept:] *= 0.02
    return np.fft.irfft(spectrum, len(wave)).astype(np.float32)


def pink(wave: Any, strength: float, rng: Generator) -> Any:
    """Noise of equal loudness in every octave."""
    spectrum = np.fft.rfft(rng.normal(size=len(wave)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), len(wave))
    loudness = np.sqrt(np.mean(wave**2) / np.mean(noise**2))
    return (wave + strength * loudness * noise).astype(np.float32)


Act = Callable[[Any, float, Generator], Any]


@dataclass(frozen=True)
class _Fixed:
    """An act at one strength, whatever the severity."""

    act: Act
    strength: float

    @property
    def __name__(self) -> str:
        return self.act.__name__

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        return self.act(item, self.strength, rng)


_PICTURES, _LETTERS = (gamma, tint, soften, grain), (keyboard, stutter, no_vowels)


def of_strength(task: str, number: int, strength: float) -> Corruption:
    """One of the task's three shifts."""
    match task:
        case "image":
            return _Fixed(_PICTURES[number], strength)
        case "video":
            return per_frame(_Fixed(_PICTURES[number], strength))
        case "text":
            return _Fixed(_LETTERS[number], strength)
        case "audio":
            return _Fixed((hum, muffled, pink)[number], strength)
        case _:
            return both(_Fixed(_PICTURES[number], strength), _Fixed(_LETTERS[number], strength))


STRENGTHS = {
    "image": (0.365, 0.486, 0.342),  # a fourth, grain, is in no mixture
    "text": (0.205, 0.154, 0.275),
    "video": (0.521, 0.143, 0.986),
    "audio": (0.131, 0.568, 0.197),
    "composed": (0.146, 0.186, 0.338),
}
DEV = {
    task: tuple(of_strength(task, number, one) for number, one in enumerate(strengths))
    for task, strengths in STRENGTHS.items()
}


GRAIN = 0.16  # the noise among the shifts of pictures and films: it takes most of the recall


def dev_shift(task: str, name: str) -> Corruption:
    """One of the task's shifts: "1" or, 1.6 times as strong, "1*1.6"; "mixed": one of three."""
    if name == "mixed":
        return one_of(*DEV[task])
    number, _, factor = name.partition("*")
    strength = (*STRENGTHS[task], GRAIN)[int(number)] * float(factor or 1)
    return of_strength(task, int(number), strength)
