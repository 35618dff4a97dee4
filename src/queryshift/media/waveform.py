"""A mono waveform and its sample rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput

USUAL_RATE = 16_000  # of a plain array


@dataclass(frozen=True, eq=False)
class Waveform:
    """Mono samples at `rate` samples per second. You can slice it and concatenate slices.

    Example:
        >>> len(Waveform(np.zeros(48_000), rate=48_000)[:100])
        100
    """

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
        """Let `numpy.concatenate` join parts of one waveform; refuse other functions."""
        if function is not np.concatenate or {type(part) for part in args[0]} != {Waveform}:
            return NotImplemented
        return Waveform(np.concatenate([part.samples for part in args[0]]), self.rate)


def as_floats(samples: NDArray[Any]) -> NDArray[np.floating]:
    """Convert mono samples to floats of full scale 1; signed integers are scaled."""
    if samples.ndim != 1:
        raise BadInput(
            f"expected audio of one channel of samples, got the shape {samples.shape}: take the "
            "mean over its channels first."
        )
    if np.issubdtype(samples.dtype, np.signedinteger):
        wide = np.float32 if samples.dtype.itemsize <= 2 else np.float64
        scaled: NDArray[np.floating] = np.divide(samples, full_scale(samples.dtype), dtype=wide)
        return scaled
    if not np.issubdtype(samples.dtype, np.floating):
        raise BadInput(
            f"expected audio of one channel of floats in [-1, 1] or signed integers, got samples "
            f"of type {samples.dtype}."
        )
    return samples


def full_scale(dtype: np.dtype[Any]) -> float:
    """Return the value of a signed integer type that becomes 1."""
    return float(np.iinfo(dtype).max) + 1.0
