"""The six audio corruptions: Gaussian noise, and five kinds of background, synthetic or recorded.

An item is a mono waveform: an array (taken to be at 16 kHz), or a `Waveform` that knows its rate.
`rain` is `Rain()`; `Rain(noise="recordings/")` takes real rain, `Rain(scale="read")` is as loud as
the published one. Imports: `corruption` of the room. Start with `background_noise.py`.
"""

from __future__ import annotations

from queryshift.media.waveform import Waveform as Waveform

from . import synthetic_noise
from .background_noise import Background, GaussianNoise


class Crowd(Background):
    """Many people talking at once."""

    __name__ = "crowd"
    synthesis = staticmethod(synthetic_noise.crowd)


class Traffic(Background):
    """A busy road."""

    __name__ = "traffic"
    synthesis = staticmethod(synthetic_noise.traffic)


class Rain(Background):
    """Steady rain."""

    __name__ = "rain"
    synthesis = staticmethod(synthetic_noise.rain)


class Thunder(Background):
    """A thunderstorm."""

    __name__ = "thunder"
    synthesis = staticmethod(synthetic_noise.thunder)


class Wind(Background):
    """Gusts of wind."""

    __name__ = "wind"
    synthesis = staticmethod(synthetic_noise.wind)


gaussian_noise, crowd, traffic = GaussianNoise(), Crowd(), Traffic()
rain, thunder, wind = Rain(), Thunder(), Wind()

FAMILIES = {"noise": (gaussian_noise, crowd, traffic), "weather": (rain, thunder, wind)}
