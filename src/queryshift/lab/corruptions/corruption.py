"""What a corruption is, and the five severities that all of them share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
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
