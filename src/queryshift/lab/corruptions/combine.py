"""Corruptions made of corruptions: by segments, one drawn per item, and both halves of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from queryshift.errors import BadInput

from .corruption import Corruption, check_severity

if TYPE_CHECKING:
    from numpy.random import Generator


def segments(*corruptions: Corruption) -> Corruption:
    """Cut a clip or waveform into as many parts as there are corruptions, one each, in order.

    Part i of k runs from floor(i n / k) to floor((i + 1) n / k) of the n frames or samples; an
    empty part is skipped, so that a clip of one frame meets the last corruption alone.
    """
    return _Segments("segments", corruptions)


def one_of(*corruptions: Corruption) -> Corruption:
    """Draw one of the corruptions for each item, all equally likely (the diverse protocol)."""
    return _OneOf("one_of", corruptions)


def both(image: Corruption, text: Corruption) -> Corruption:
    """Corrupt a composed query `(image, text)` on its image and on its text."""
    return _Both(image, text)


@dataclass(frozen=True)
class _Several:
    function: str
    corruptions: tuple[Corruption, ...]

    def __post_init__(self) -> None:
        if not self.corruptions:
            raise BadInput(f"{self.function}() got no corruption; give at least one.")

    @property
    def __name__(self) -> str:
        return _call(self.function, self.corruptions)


class _Segments(_Several):
    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        check_severity(severity)
        count = len(self.corruptions)
        bounds = (index * len(item) // count for index in range(count + 1))
        parts = [
            corruption(item[start:stop], severity, rng)
            for corruption, (start, stop) in zip(self.corruptions, pairwise(bounds), strict=True)
            if start < stop
        ]
        return _joined(parts, item)


class _OneOf(_Several):
    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        check_severity(severity)
        drawn = self.corruptions[int(rng.integers(len(self.corruptions)))]
        return drawn(item, severity, rng)


@dataclass(frozen=True)
class _Both:
    image: Corruption
    text: Corruption

    @property
    def __name__(self) -> str:
        return _call("both", (self.image, self.text))

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        check_severity(severity)
        try:
            image, text = item
        except (TypeError, ValueError):
            kind = type(item).__name__
            raise BadInput(f"a composed query is a pair (image, text); got {kind}.") from None
        return self.image(image, severity, rng), self.text(text, severity, rng)


def _call(function: str, corruptions: Sequence[Corruption]) -> str:
    return f"{function}({', '.join(corruption.__name__ for corruption in corruptions)})"


def _joined(parts: list[Any], like: Any) -> Any:
    if not parts:
        raise BadInput("got a clip or waveform of length 0; there is nothing to corrupt.")
    if isinstance(like, list | tuple):
        return type(like)(chain.from_iterable(parts))
    from numpy import concatenate

    return concatenate(parts)
