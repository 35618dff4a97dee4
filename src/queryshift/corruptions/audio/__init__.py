"""The six audio corruptions: Gaussian noise, and five kinds of background, real or synthetic.

An item is a mono waveform: an array (taken to be at 16 kHz), or a `Waveform` that knows its rate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.random import Generator

from queryshift.corruptions.audio import levels, recordings, street, weather
from queryshift.corruptions.audio.levels import Scale
from queryshift.corruptions.audio.synthesis import unit
from queryshift.corruptions.audio.waveform import Sound, Waveform, floats_of, like, rate_of
from queryshift.corruptions.contract import at

__all__ = ["FAMILIES", "Waveform", "crowd", "gaussian_noise", "rain", "thunder", "traffic", "wind"]

Source = Callable[[int, int, Generator], levels.Floats]  # (samples, rate, rng) -> noise
Folder = str | Path | None


def gaussian_noise(item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr") -> Sound:
    """White noise."""
    levels.check_scale(scale)
    signal = floats_of(item)
    white = rng.standard_normal(len(signal), dtype=np.float32)
    if scale == "read":
        return like(item, signal + np.float32(at(severity, levels.READ_SIGMA)) * white)
    return like(item, signal + levels.at_ratio(signal, white, severity))


def crowd(
    item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr", noise: Folder = None
) -> Sound:
    """Many people talking at once."""
    return _over(item, severity, rng, _source(street.crowd, scale, noise), scale)


def traffic(
    item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr", noise: Folder = None
) -> Sound:
    """A busy road."""
    return _over(item, severity, rng, _source(street.traffic, scale, noise), scale)


def rain(
    item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr", noise: Folder = None
) -> Sound:
    """Steady rain."""
    return _over(item, severity, rng, _source(weather.rain, scale, noise), scale)


def thunder(
    item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr", noise: Folder = None
) -> Sound:
    """A thunderstorm."""
    return _over(item, severity, rng, _source(weather.thunder, scale, noise), scale)


def wind(
    item: Sound, severity: int, rng: Generator, /, *, scale: Scale = "snr", noise: Folder = None
) -> Sound:
    """Gusts of wind."""
    return _over(item, severity, rng, _source(weather.wind, scale, noise), scale)


FAMILIES = {"noise": (gaussian_noise, crowd, traffic), "weather": (rain, thunder, wind)}


def _over(item: Sound, severity: int, rng: Generator, source: Source, scale: Scale) -> Sound:
    """Lay a background over the item, as loud as `scale` and `severity` ask for."""
    levels.check_scale(scale)
    signal = floats_of(item)
    background = source(len(signal), rate_of(item), rng) if len(signal) else signal
    if scale == "read":
        return like(item, signal + levels.with_gain(background, severity))
    return like(item, signal + levels.at_ratio(signal, background, severity))


def _source(synthesis: Source, scale: Scale, noise: Folder) -> Source:
    """Where the background comes from: the synthesis, or a folder with recordings of its kind."""
    if noise is None:
        return partial(_synthetic, synthesis)
    cut = recordings.opening if scale == "read" else recordings.excerpt
    return partial(cut, Path(noise), synthesis.__name__)


def _synthetic(synthesis: Source, count: int, rate: int, rng: Generator) -> levels.Floats:
    return np.float32(levels.SYNTHETIC_RMS) * unit(synthesis(count, rate, rng))
