"""Attributes computed on first use, without a lock around the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lazy_property(Generic[Value]):
    """A property computed once per instance and kept in its `__dict__`, frozen dataclasses too.

    Python 3.11's `functools.cached_property` holds one lock for all instances of a class while it
    computes; here two threads that come first to one instance may compute twice, and both get the
    value that was stored first.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Value: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> Self | Value:
        if instance is None:
            return self
        value = self.compute(instance)
        stored: Value = vars(instance).setdefault(self.name, value)
        return stored
