"""Noise from a folder of recordings, in place of the synthetic one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from queryshift.errors import BadFile, BadInput
from queryshift.media.audio import AUDIO_SUFFIXES, read_audio, resampled

from .samples import rms

Floats = NDArray[np.float32]
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
