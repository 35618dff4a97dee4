"""The six audio corruptions: Gaussian noise, and five kinds of background, synthetic or recorded.

An item is a mono waveform: an array (taken to be at 16 kHz), or a `Waveform` that knows its rate.
`rain` is `Rain()`; `Rain(noise="recordings/")` takes real rain, `Rain(scale="read")` is as loud as
the published one. Imports: `corruption` of `corruptions`. Start with `background_noise.py`.
"""

from __future__ import annotations

from queryshift.media.waveform import Waveform as Waveform

from .background_noise import GaussianNoise
from .backgrounds import Crowd, Rain, Thunder, Traffic, Wind

gaussian_noise, crowd, traffic = GaussianNoise(), Crowd(), Traffic()
rain, thunder, wind = Rain(), Thunder(), Wind()

FAMILIES = {"noise": (gaussian_noise, crowd, traffic), "weather": (rain, thunder, wind)}
