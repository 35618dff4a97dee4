"""The six audio corruptions: Gaussian noise, and five kinds of background, synthetic or recorded.

An item is a mono waveform: an array (taken to be at 16 kHz), or a `Waveform` that knows its rate.
`rain` is `Rain()`; `Rain(noise="recordings/")` takes real rain, `Rain(scale="read")` is as loud as
the published one. Imports: `corruption` of `corruptions`. Start with `background_noise.py`.
"""

from __future__ import annotations

from queryshift.media.waveform import Waveform as Waveform

from .background_noise import Background, GaussianNoise


class Crowd(Background):
    """Many people talking at once."""


class Traffic(Background):
    """A busy road."""


class Rain(Background):
    """Steady rain."""


class Thunder(Background):
    """A thunderstorm."""


class Wind(Background):
    """Gusts of wind."""


gaussian_noise, crowd, traffic = GaussianNoise(), Crowd(), Traffic()
rain, thunder, wind = Rain(), Thunder(), Wind()

FAMILIES = {"noise": (gaussian_noise, crowd, traffic), "weather": (rain, thunder, wind)}
