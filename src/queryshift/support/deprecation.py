"""Old names that still work, with a warning, and old names as keys of stored files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import Field, field
from functools import wraps
from typing import Any, TypeVar

DROPPED_IN = "0.3"
"""The version that removes the old names."""

Renamed = TypeVar("Renamed", bound=Callable[..., Any])


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of the calling function that a name has changed."""
    told = f"{old} is now {new}; the old name goes in version {DROPPED_IN}."
    warnings.warn(told, DeprecationWarning, stacklevel=3)


def renamed_arguments(**new_by_old: str) -> Callable[[Renamed], Renamed]:
    """Let a function or a class accept keyword arguments by their old names.

    Examples:
        >>> @renamed_arguments(colour="color")
        ... def paint(color): return color
        >>> paint(color="red")
        'red'
    """

    def accepting(made: Renamed) -> Renamed:
        function: Any = vars(made)["__init__"] if isinstance(made, type) else made

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            for old, new in new_by_old.items():
                if old in named:
                    warn_renamed(f"{made.__name__}({old}=)", f"{made.__name__}({new}=)")
                    named[new] = named.pop(old)
            return function(*args, **named)

        if not isinstance(made, type):
            return call  # type: ignore[return-value]
        made.__init__ = call  # type: ignore[misc]
        return made

    return accepting


class RenamedAttribute:
    """An attribute under its old name: reads the new one, with a warning."""

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        warn_renamed(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(instance, self._new)


def stored_as(key: str, **given: Any) -> Any:
    """A dataclass field whose key in files is an older name."""
    return field(metadata={"stored_as": key}, **given)


def stored_name(one: Field[Any]) -> str:
    """The key of a dataclass field in files."""
    name: str = one.metadata.get("stored_as", one.name)
    return name
