"""The published filter: draw again until a sentence encoder finds the result close enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..corruption import Corruption

if TYPE_CHECKING:
    from numpy.random import Generator

Encode = Callable[[str], Sequence[float]]


def similar(
    corruption: Corruption, encode: Encode, least: float = 0.9, draws: int = 100
) -> Corruption:
    """`corruption`, redrawn until the cosine of the two captions' vectors is at least `least`.

    After `draws` draws the last one is kept. `encode` gives one vector for one caption; the
    published scripts used sentence-transformers/paraphrase-mpnet-base-v2, for the word level and
    the four styles only.
    """
    return _Similar(corruption, encode, least, draws)


@dataclass(frozen=True)
class _Similar:
    corruption: Corruption
    encode: Encode
    least: float
    draws: int

    @property
    def __name__(self) -> str:
        return f"similar({self.corruption.__name__})"

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        clean = self.encode(caption)
        drawn: str = caption
        for _ in range(self.draws):
            drawn = self.corruption(caption, severity, rng)
            if _cosine(clean, self.encode(drawn)) >= self.least:
                break
        return drawn


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.sqrt(_dot(one, one) * _dot(other, other))
    return _dot(one, other) / lengths if lengths else 0.0


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(one, other, strict=True))
