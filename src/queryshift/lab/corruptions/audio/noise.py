"""Noise added to a waveform, by a signal-to-noise ratio or with the gains READ published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from queryshift.errors import unknown

from ..corruption import at
from . import recordings
from .samples import Sound, floats_of, like, rate_of, rms
from .synthesis import unit

Scale = Literal["snr", "read"]
Floats = NDArray[np.floating]

SNR_DB = (20.0, 15.0, 10.0, 5.0, 0.0)
READ_SIGMA = (0.08, 0.12, 0.18, 0.26, 0.38)  # of full scale
READ_GAIN_DB = (1.0, 2.0, 4.0, 6.0, 8.0)
SYNTHETIC_RMS = 0.1  # stands in for the loudness of a recording, which a synthetic noise has not


def check_scale(scale: str) -> None:
    """Refuse a scale that is not one of the two."""
    if scale not in get_args(Scale):
        raise unknown("scale", scale, get_args(Scale))


def at_ratio(signal: Floats, noise: Floats, severity: int) -> Floats:
    """`noise` as many decibels below `signal` as `severity` says; none for a silent signal."""
    wanted = rms(signal) * decibels(-at(severity, SNR_DB))
    found = rms(noise)
    return noise * noise.dtype.type(wanted / found) if found else noise


def with_gain(noise: Floats, severity: int) -> Floats:
    """`noise` amplified as published, cut off at full scale."""
    return np.clip(noise * noise.dtype.type(decibels(at(severity, READ_GAIN_DB))), -1.0, 1.0)


def decibels(level: float) -> float:
    """The amplitude factor of `level` decibels."""
    return float(10 ** (level / 20))


@dataclass(frozen=True)
class GaussianNoise:
    """White noise; `scale="read"` gives it the published deviation, whatever the signal."""

    scale: Scale = "snr"
    __name__ = "gaussian_noise"

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Add the noise to a copy."""
        signal = floats_of(item)
        white = rng.standard_normal(len(signal), dtype=np.float32)
        if self.scale == "read":
            return like(item, signal + np.float32(at(severity, READ_SIGMA)) * white)
        return like(item, signal + at_ratio(signal, white, severity))


@dataclass(frozen=True)
class Background(ABC):
    """A background; `noise` names a folder of recordings to take it from instead."""

    scale: Scale = "snr"
    noise: str | Path | None = None
    __name__: ClassVar[str]

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Lay the background over a copy, as loud as `scale` and `severity` say."""
        signal = floats_of(item)
        background = self._background(len(signal), rate_of(item), rng) if len(signal) else signal
        if self.scale == "read":
            return like(item, signal + with_gain(background, severity))
        return like(item, signal + at_ratio(signal, background, severity))

    @staticmethod
    @abstractmethod
    def synthesis(count: int, rate: int, rng: Generator) -> Floats:
        """`count` samples of the background, at any level."""

    def _background(self, count: int, rate: int, rng: Generator) -> Floats:
        if self.noise is None:
            return np.float32(SYNTHETIC_RMS) * unit(self.synthesis(count, rate, rng))
        cut = recordings.opening if self.scale == "read" else recordings.excerpt
        return cut(Path(self.noise), self.__name__, count, rate, rng)
