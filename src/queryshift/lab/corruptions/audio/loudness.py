"""How loud the noise is: by a signal-to-noise ratio, or with the gains READ published."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import unknown

from ..corruption import at

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


def rms(wave: Floats) -> float:
    """The root of the mean power around the mean: a constant offset is no sound."""
    return float(np.std(wave, dtype=np.float64)) if len(wave) else 0.0


def decibels(level: float) -> float:
    """The amplitude factor of `level` decibels."""
    return float(10 ** (level / 20))
