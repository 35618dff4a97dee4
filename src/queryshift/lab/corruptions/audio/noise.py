"""Noise laid over a waveform: white, or a background that is synthesised or was recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from ..corruption import at
from . import loudness, recordings
from .loudness import Floats, Scale
from .samples import Sound, floats_of, like, rate_of
from .synthesis import unit


@dataclass(frozen=True)
class GaussianNoise:
    """White noise; `scale="read"` gives it the published deviation, whatever the signal."""

    scale: Scale = "snr"
    __name__ = "gaussian_noise"

    def __post_init__(self) -> None:
        loudness.check_scale(self.scale)

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Add the noise to a copy."""
        signal = floats_of(item)
        white = rng.standard_normal(len(signal), dtype=np.float32)
        if self.scale == "read":
            return like(item, signal + np.float32(at(severity, loudness.READ_SIGMA)) * white)
        return like(item, signal + loudness.at_ratio(signal, white, severity))


@dataclass(frozen=True)
class Background(ABC):
    """A background; `noise` names a folder of recordings to take it from instead."""

    scale: Scale = "snr"
    noise: str | Path | None = None
    __name__: ClassVar[str]

    def __post_init__(self) -> None:
        loudness.check_scale(self.scale)

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Lay the background over a copy, as loud as `scale` and `severity` say."""
        signal = floats_of(item)
        background = self._background(len(signal), rate_of(item), rng) if len(signal) else signal
        if self.scale == "read":
            return like(item, signal + loudness.with_gain(background, severity))
        return like(item, signal + loudness.at_ratio(signal, background, severity))

    @staticmethod
    @abstractmethod
    def synthesis(count: int, rate: int, rng: Generator) -> Floats:
        """`count` samples of the background, at any level."""

    def _background(self, count: int, rate: int, rng: Generator) -> Floats:
        if self.noise is None:
            return np.float32(loudness.SYNTHETIC_RMS) * unit(self.synthesis(count, rate, rng))
        cut = recordings.opening if self.scale == "read" else recordings.excerpt
        return cut(Path(self.noise), self.__name__, count, rate, rng)
