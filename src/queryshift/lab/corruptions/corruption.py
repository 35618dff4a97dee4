"""Corruptions, the five severities, and a random generator for each item."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from queryshift.errors import BadInput

if TYPE_CHECKING:
    from numpy.random import Generator


Value = TypeVar("Value")
SEVERITIES = (1, 2, 3, 4, 5)


class Corruption(Protocol):
    """Makes a corrupted copy of an item; all randomness comes from `rng`."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class Composite:
    """A corruption made of others: calls `function(*parts, item, severity, rng)`."""

    name: str
    function: Callable[..., Any]
    parts: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, item: Any, severity: int, rng: Generator, /) -> Any:
        """Corrupt a copy."""
        return self.function(*self.parts, item, severity, rng)


def check_severity(severity: int, highest: int = SEVERITIES[-1]) -> int:
    """`severity` as a plain int from 1 to `highest`, or an error that says so."""
    try:
        level = operator.index(severity)
    except TypeError:
        level = 0
    if isinstance(severity, bool) or not 1 <= level <= highest:
        raise BadInput(f"severity is {severity!r}; it must be a whole number from 1 to {highest}.")
    return level


def at(severity: int, values: Sequence[Value]) -> Value:
    """The value that belongs to `severity`, from a list with one value per severity."""
    return values[check_severity(severity, len(values)) - 1]


def generator(
    seed: int, item_id: str | int, corruption_name: str, severity: int | None = None
) -> Generator:
    """The generator of one item under one corruption: the same in every process and on every day.

    Without `severity` the draws are common to all severities, which gives smoother curves.
    """
    from numpy.random import PCG64, Generator, SeedSequence

    key = (str(seed), str(item_id), corruption_name, "" if severity is None else str(int(severity)))
    parts = (part.encode("utf-8", "surrogatepass") for part in key)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    entropy = int.from_bytes(blake2b(message, digest_size=16).digest(), "big")
    return Generator(PCG64(SeedSequence(entropy)))


def corrupt(
    item: Any, corruption: Corruption, severity: int, *, seed: int, item_id: str | int
) -> Any:
    """`item` corrupted with its own generator."""
    level = check_severity(severity)
    return corruption(item, level, generator(seed, item_id, corruption.__name__, level))
