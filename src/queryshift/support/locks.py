"""Locks that a forked process can take, whatever the threads of its parent were doing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Self
from weakref import WeakSet


class RenewedLock:
    """A lock, renewed after a fork unless the forking thread itself holds it.

    Only that thread lives on in the child: a lock that another one held would never be released.
    Where its owner is copied or pickled, the copy has a lock of its own.

    Example:
        >>> lock = RenewedLock()
        >>> with lock:
        ...     lock.acquire(blocking=False)
        False
    """

    _make: Callable[[], Any] = staticmethod(threading.Lock)

    def __init__(self) -> None:
        self._lock = self._make()
        self._owner, self._depth = 0, 0  # the thread that holds it, and how many times
        _all_locks.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; False if it is held by another for longer than `timeout` seconds."""
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            self._owner, self._depth = threading.get_ident(), self._depth + 1
        return taken

    def release(self) -> None:
        """Let others take the lock."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return (type(self), ())

    def _renew(self) -> None:
        if not (self._depth and self._owner == threading.get_ident()):
            self._lock, self._depth = self._make(), 0


class RenewedRLock(RenewedLock):
    """The same for a lock that one thread may take several times."""

    _make = staticmethod(threading.RLock)


_all_locks: WeakSet[RenewedLock] = WeakSet()


def _renew_all() -> None:
    for lock in _all_locks:
        lock._renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
