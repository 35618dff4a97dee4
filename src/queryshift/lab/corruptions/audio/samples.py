"""What corruptions take for a mono waveform, and how its type and rate are kept."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput
from queryshift.media.waveform import USUAL_RATE, Waveform, as_floats, full_scale

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
