"""A mono waveform and its sample rate, and the rules for what counts as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput

USUAL_RATE = 16_000  # of a plain array, which does not say
LOUDEST = 2.0  # overshoot from resampling is let through, samples counted in integers are not


@dataclass(frozen=True, eq=False)
class Waveform:
    """Mono samples at `rate` samples a second; slices of it, and slices concatenated, are too."""

    samples: NDArray[Any]
    rate: int = USUAL_RATE

    def __post_init__(self) -> None:
        if self.rate < 1:
            raise BadInput(f"a sample rate of {self.rate}: it must be at least 1 per second.")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, part: slice) -> Waveform:
        return Waveform(self.samples[part], self.rate)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[list[Waveform]], kwargs: dict[str, Any]
    ) -> Any:
        """Let `numpy.concatenate` join parts of one waveform, and nothing else."""
        if function is not np.concatenate or {type(part) for part in args[0]} != {Waveform}:
            return NotImplemented
        return Waveform(np.concatenate([part.samples for part in args[0]]), self.rate)


Sound = TypeVar("Sound", NDArray[Any], Waveform)


def rate_of(item: NDArray[Any] | Waveform) -> int:
    """Samples a second: the waveform's own, or 16 000 for a plain array."""
    return item.rate if isinstance(item, Waveform) else USUAL_RATE


def floats_of(item: NDArray[Any] | Waveform) -> NDArray[np.floating]:
    """The samples as floats of full scale 1, or a sentence on why they are not a mono waveform."""
    samples = np.asarray(item.samples if isinstance(item, Waveform) else item)
    if samples.ndim != 1:
        raise BadInput(
            f"a mono waveform has one axis, this one has shape {samples.shape}: "
            "take the mean over its channels first."
        )
    if np.issubdtype(samples.dtype, np.signedinteger):
        wide = np.float32 if samples.dtype.itemsize <= 2 else np.float64
        scaled: NDArray[np.floating] = np.divide(samples, _full_scale(samples.dtype), dtype=wide)
        return scaled
    if not np.issubdtype(samples.dtype, np.floating):
        raise BadInput(
            f"samples of type {samples.dtype}: expected floats in [-1, 1] or signed integers."
        )
    peak = float(np.abs(samples).max(initial=0.0))
    if not peak <= LOUDEST:  # NaN too
        raise BadInput(
            f"float samples lie in [-1, 1], these reach {peak:g}: repair or rescale them "
            "(integer samples may be given as integers)."
        )
    return samples


def like(item: Sound, floats: NDArray[np.floating]) -> Sound:
    """`floats`, clipped to full scale, in the type and at the rate of `item`."""
    clipped = np.clip(floats, -1.0, 1.0)
    if isinstance(item, Waveform):
        return Waveform(_in_type(clipped, item.samples.dtype), item.rate)
    return _in_type(clipped, np.asarray(item).dtype)


def _in_type(clipped: NDArray[np.floating], dtype: np.dtype[Any]) -> NDArray[Any]:
    if not np.issubdtype(dtype, np.signedinteger):
        return clipped.astype(dtype, copy=False)
    scale = _full_scale(dtype)
    steps: NDArray[Any] = np.clip(np.rint(clipped * scale), -scale, scale - 1)
    return steps.astype(dtype)


def _full_scale(dtype: np.dtype[Any]) -> float:
    return float(np.iinfo(dtype).max) + 1.0
