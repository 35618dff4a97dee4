"""Audio from arrays, waveforms, bytes, file objects and paths: one channel, at any rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput
from queryshift.support.optional import need

from .item_reading import Stored, decoding, is_stored, read_each, source
from .limits import check_samples
from .waveform import USUAL_RATE, Waveform, as_floats

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")
EXPECTED = (
    "expected audio as one channel of samples at 16 kHz, a Waveform(samples, rate) of "
    "queryshift.media.waveform, bytes, a file object or a pathlib.Path"
)


def waveforms(items: Iterable[Any], rate: int) -> list[NDArray[np.float32]]:
    """Read the audio of a batch at `rate`; the first bad item raises `BadItem`."""
    return read_each(items, lambda item: waveform(item, rate))


def waveform(item: Any, rate: int) -> NDArray[np.float32]:
    """Read mono samples at a rate.

    Args:
        item: samples at 16 kHz, floats from -1 to 1 or signed integers; an object with `samples`
            and `rate`; or an audio file: its `pathlib.Path`, its bytes, a file object.
        rate: samples per second of the result.

    Returns:
        The samples as an array of float32.

    Example:
        >>> len(waveform(np.zeros(16_000), 48_000))
        48000
    """
    if isinstance(item, str):
        raise BadInput(f"{EXPECTED}; text is not opened as a path: pass pathlib.Path(...).")
    wave = read_audio(item) if is_stored(item) else _waveform(item)
    samples = as_floats(wave.samples)
    if not len(samples):
        raise BadInput("expected audio of one channel, got no samples: leave it out.")
    check_samples(len(samples), 1, wave.rate)
    with np.errstate(over="ignore"):
        heard = resampled(samples, wave.rate, rate).astype(np.float32)
    if not np.isfinite(heard).all():
        raise BadInput("got samples that are NaN or infinite: repair it, or leave it out.")
    return heard


def read_audio(item: Stored) -> Waveform:
    """Read an audio file as a mono `Waveform`, the mean of its channels.

    Args:
        item: a `pathlib.Path` of a regular file, bytes, or a file object, whose position is
            restored.

    Returns:
        The samples at the file's own rate. The length is checked before decoding.
    """
    soundfile = need("soundfile", "lab", "reading audio")
    with decoding(item, "an audio file"), soundfile.SoundFile(source(item)) as file:
        check_samples(file.frames, file.channels, file.samplerate)
        channels = file.read(dtype="float32", always_2d=True)
        return Waveform(channels.mean(axis=1), file.samplerate)


def resampled(samples: NDArray[Any], old: int, new: int) -> NDArray[Any]:
    """Resample audio by its Fourier series, exact up to half the lower rate."""
    if old == new or not len(samples):
        return samples
    length = max(1, round(len(samples) * new / old))
    return np.asarray(np.fft.irfft(np.fft.rfft(samples), length) * (length / len(samples)))


def _waveform(item: Any) -> Waveform:
    """Read samples in memory and their rate; refuse anything else."""
    try:
        samples = np.asarray(getattr(item, "samples", item))
        rate = int(getattr(item, "rate", USUAL_RATE))
    except Exception as error:  # ragged lists, tensors on a GPU, a rate that is no number
        raise BadInput(f"{EXPECTED} ({error}).") from error
    if samples.dtype.kind not in "buif" or samples.ndim == 0 or rate < 1:
        raise BadInput(f"{EXPECTED}.")
    return Waveform(samples, rate)
