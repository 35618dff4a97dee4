"""Noise added to a waveform: by a signal-to-noise ratio or as loud as READ published it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from queryshift.errors import BadFile, BadInput, check_known
from queryshift.media.audio import AUDIO_SUFFIXES, read_audio, resampled
from queryshift.media.waveform import USUAL_RATE, Waveform, as_floats, full_scale

from ..corruption import at
from .synthetic_noise import SOUNDS, unit

LOUDEST = 2.0  # overshoot from resampling is let through, samples counted in integers are not

Sound = TypeVar("Sound", NDArray[Any], Waveform)


def rate_of(item: NDArray[Any] | Waveform) -> int:
    """Samples a second: the waveform's own, or 16 000 for a plain array."""
    return item.rate if isinstance(item, Waveform) else USUAL_RATE


def floats_of(item: NDArray[Any] | Waveform) -> NDArray[np.floating]:
    """The samples as floats of full scale 1, or a sentence on why they are not a mono waveform."""
    try:
        given = np.asarray(item.samples if isinstance(item, Waveform) else item)
    except RuntimeError as error:  # torch's, of tensors with a gradient
        raise BadInput(f"the samples cannot be read as an array: {error}") from None
    samples = as_floats(given)
    peak = float(np.abs(samples).max(initial=0.0))
    if not peak <= LOUDEST:  # NaN too
        raise BadInput(
            f"float samples lie in [-1, 1], these reach {peak:g}: repair or rescale them "
            "(integer samples may be given as integers)."
        )
    return samples


def rms(wave: NDArray[np.floating]) -> float:
    """The root of the mean power around the mean: a constant offset cannot be heard."""
    return float(np.std(wave, dtype=np.float64)) if len(wave) else 0.0


def like(item: Sound, floats: NDArray[np.floating]) -> Sound:
    """`floats`, clipped to full scale, in the type and at the rate of `item`."""
    clipped = np.clip(floats, -1.0, 1.0)
    if isinstance(item, Waveform):
        return Waveform(_in_type(clipped, item.samples.dtype), item.rate)
    return _in_type(clipped, np.asarray(item).dtype)


def _in_type(clipped: NDArray[np.floating], dtype: np.dtype[Any]) -> NDArray[Any]:
    if not np.issubdtype(dtype, np.signedinteger):
        return clipped.astype(dtype, copy=False)
    scale = full_scale(dtype)
    steps: NDArray[Any] = np.clip(np.rint(clipped * scale), -scale, scale - 1)
    return steps.astype(dtype)


QUIETEST_EXCERPT = 0.01  # of the whole recording's loudness: a pause is not blown up into a roar


def excerpt(folder: Path, name: str, count: int, rate: int, rng: Generator) -> Floats:
    """`count` samples of one of the recordings from a random place on, going round at the end."""
    files = recordings(folder, name)
    wave = load(files[int(rng.integers(len(files)))], rate)
    found = _looped(wave, int(rng.integers(len(wave))), count)
    if rms(found) >= QUIETEST_EXCERPT * rms(wave):
        return found
    return _looped(wave, int(np.argmax(np.abs(wave))), count)


def opening(folder: Path, name: str, count: int, rate: int, rng: Generator) -> Floats:
    """The first `count` samples of the first recording, going round, as published."""
    return _looped(load(recordings(folder, name)[0], rate), 0, count)


def _looped(wave: Floats, start: int, count: int) -> Floats:
    return wave.take(np.arange(start, start + count), mode="wrap")


@lru_cache(maxsize=32)
def recordings(folder: Path, name: str) -> tuple[Path, ...]:
    """The files of one kind: `rain.wav` first, then `rain-2.flac`, and all of a folder `rain`."""
    if not folder.is_dir():
        raise BadInput(f'"{folder}" is not a folder; noise= is a folder of recordings.')
    wanted = (*folder.glob(f"{name}*"), *folder.glob(f"{name}/*"))
    found = [path for path in wanted if path.suffix.lower() in AUDIO_SUFFIXES]
    if not found:
        raise BadInput(
            f'no recording of {name} in "{folder}": expected files named {name}*.wav '
            f"or a folder {name}/ ({', '.join(AUDIO_SUFFIXES)})."
        )
    return tuple(sorted(found, key=lambda path: (path.stem != name, path)))


@lru_cache(maxsize=32)
def load(path: Path, rate: int) -> Floats:
    """A recording as one channel at `rate`; read once per process."""
    recording = read_audio(path)
    wave: Floats = resampled(recording.samples, recording.rate, rate).astype(np.float32)
    if rms(wave) == 0:
        raise BadFile(f'the recording "{path}" is silent; there is no noise in it to use.')
    wave.setflags(write=False)
    return wave


Scale = Literal["snr", "read"]
Floats = NDArray[np.floating]

SNR_DB = (20.0, 15.0, 10.0, 5.0, 0.0)
READ_SIGMA = (0.08, 0.12, 0.18, 0.26, 0.38)  # of full scale
READ_GAIN_DB = (1.0, 2.0, 4.0, 6.0, 8.0)
SYNTHETIC_RMS = 0.1  # stands in for the loudness of a recording, which a synthetic noise has not


def at_ratio(signal: Floats, noise: Floats, severity: int) -> Floats:
    """Scale `noise` to the severity's signal-to-noise ratio; silence gets none."""
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
class _Noise:
    scale: Scale = "snr"

    def __post_init__(self) -> None:
        check_known("scale", self.scale, get_args(Scale))


@dataclass(frozen=True)
class GaussianNoise(_Noise):
    """White noise; with `scale="read"` its deviation does not depend on the signal."""

    __name__ = "gaussian_noise"

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Add the noise to a copy."""
        signal = floats_of(item)
        white = rng.standard_normal(len(signal), dtype=np.float32)
        if self.scale == "read":
            return like(item, signal + np.float32(at(severity, READ_SIGMA)) * white)
        return like(item, signal + at_ratio(signal, white, severity))


@dataclass(frozen=True)
class Background(_Noise):
    """A synthetic background named like its class, or from `noise`, a folder of recordings."""

    noise: str | Path | None = None

    @property
    def __name__(self) -> str:
        return type(self).__qualname__.lower()

    def __call__(self, item: Sound, severity: int, rng: Generator, /) -> Sound:
        """Lay the background over a copy, as loud as `scale` and `severity` say."""
        signal = floats_of(item)
        background = self._background(len(signal), rate_of(item), rng) if len(signal) else signal
        if self.scale == "read":
            return like(item, signal + with_gain(background, severity))
        return like(item, signal + at_ratio(signal, background, severity))

    def _background(self, count: int, rate: int, rng: Generator) -> Floats:
        if self.noise is None:
            return np.float32(SYNTHETIC_RMS) * unit(SOUNDS[self.__name__](count, rate, rng))
        cut = opening if self.scale == "read" else excerpt
        return cut(Path(self.noise), self.__name__, count, rate, rng)
