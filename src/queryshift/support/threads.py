"""What threads and forked processes share: locks, values computed once, one thread alone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, Self, TypeVar, overload
from weakref import WeakSet

logger = logging.getLogger("queryshift")
MAX_WAIT_S = 0.2  # for others to finish their work; they may wait for something that we hold
Thread = tuple[int, int]  # with its process: a fork has one thread, and none of its parent's
Value = TypeVar("Value")


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


@cache
def one_torch_thread_after_forks() -> None:
    """Let torch compute in one thread in children forked from now on: its others stay behind.

    Its pool of threads lives on only as a number, and a child that gave it work would wait for
    ever. For models and galleries to call: without any, children may have as many as they like.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_one_torch_thread)


def _one_torch_thread() -> None:
    import torch

    if (threads := torch.get_num_threads()) > 1:
        torch.set_num_threads(1)
        told = "torch computes in 1 thread in this forked process: the other %d stayed behind."
        logger.info(told, threads - 1)


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


_changed = threading.Condition(RenewedLock())  # type: ignore[arg-type]
_at_work: dict[Thread, int] = {}  # and how many times over
_waiting: set[Thread] = set()  # to be alone
_recording: set[Thread] = set()  # at most one of each process


@contextmanager
def working() -> Iterator[None]:
    """While this lasts, no other thread is alone; waits for those that are, or wait to be."""
    me = _me()
    with _changed:
        if me not in _at_work and me not in _recording:  # else some would wait for us
            _changed.wait_for(lambda: not _ours(_waiting) and not _ours(_recording))
        _at_work[me] = _at_work.get(me, 0) + 1
    try:
        yield
    finally:
        with _changed:
            _at_work[me] -= 1
            if not _at_work[me]:
                del _at_work[me]
            _changed.notify_all()


@contextmanager
def alone() -> Iterator[bool]:
    """Wait until nobody works, and let nobody begin. False if others still worked in the end."""
    me = _me()
    with _changed:
        times = _at_work.pop(me, 0)  # who waits does not work
        _waiting.add(me)
        _changed.notify_all()
        found = _changed.wait_for(lambda: not _ours(_at_work) and not _ours(_recording), MAX_WAIT_S)
        _waiting.discard(me)
        if found:
            _recording.add(me)
        else:
            _go_on(me, times)
    try:
        yield found
    finally:
        if found:
            with _changed:
                _recording.discard(me)
                _go_on(me, times)


def _go_on(me: Thread, times: int) -> None:
    """Back to work, when no other thread is alone."""
    _changed.notify_all()
    _changed.wait_for(lambda: not _ours(_recording))
    if times:
        _at_work[me] = times


def _me() -> Thread:
    return os.getpid(), threading.get_ident()


def _ours(threads: dict[Thread, int] | set[Thread]) -> bool:
    """Whether any of these is of this process."""
    return any(process == os.getpid() for process, _ in threads)
