"""The six audio corruptions: Gaussian noise, and five kinds of background, synthetic or recorded.

An item is a mono waveform: an array (taken to be at 16 kHz), or a `Waveform` that knows its rate.
`rain` is `Rain()`; `Rain(noise="recordings/")` takes real rain, `Rain(scale="read")` is as loud as
the published one. Imports: `corruption` of the room. Start with `noise.py`.
"""

from __future__ import annotations

from queryshift.media.waveform import Waveform as Waveform

from . import street, weather
from .noise import Background, GaussianNoise


class Crowd(Background):
    """Many people talking at once."""

    __name__ = "crowd"
    synthesis = staticmethod(street.crowd)


class Traffic(Background):
    """A busy road."""

    __name__ = "traffic"
    synthesis = staticmethod(street.traffic)


class Rain(Background):
    """Steady rain."""

    __name__ = "rain"
    synthesis = staticmethod(weather.rain)


class Thunder(Background):
    """A thunderstorm."""

    __name__ = "thunder"
    synthesis = staticmethod(weather.thunder)


class Wind(Background):
    """Gusts of wind."""

    __name__ = "wind"
    synthesis = staticmethod(weather.wind)


gaussian_noise, crowd, traffic = GaussianNoise(), Crowd(), Traffic()
rain, thunder, wind = Rain(), Thunder(), Wind()

FAMILIES = {"noise": (gaussian_noise, crowd, traffic), "weather": (rain, thunder, wind)}
