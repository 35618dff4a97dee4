"""Locks for threads and forked processes, lazy values, and a thread that runs alone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

logger = logging.getLogger("queryshift")
MAX_WAIT_S = 0.2  # for others to finish their work; they may wait for a lock that we hold
Thread = tuple[int, int]  # process and thread; a fork has one thread, none of its parent's


class RenewedLock:
    """A lock that is replaced after a fork, unless the forking thread itself holds it.

    Only that thread exists in the child, so a lock of another one would never be released. If the
    lock's owner is copied or pickled, the copy gets a new lock.

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
    """Such a lock that one thread may take several times."""

    _make = staticmethod(threading.RLock)


_all_locks: WeakSet[RenewedLock] = WeakSet()


def _renew_all() -> None:
    for lock in _all_locks:
        lock._renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)


@cache
def one_torch_thread_after_forks() -> None:
    """Make torch use one thread in forked children, as its other threads do not exist there.

    Otherwise a child would wait for them forever. Models and galleries call this; without them,
    children may use as many threads as they like.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_one_torch_thread)


def _one_torch_thread() -> None:
    import torch

    if (threads := torch.get_num_threads()) > 1:
        torch.set_num_threads(1)
        told = "torch computes in 1 thread in this forked process: the other %d stayed behind."
        logger.info(told, threads - 1)


if TYPE_CHECKING:  # checkers know `property` best
    lazy_property = property
else:

    class lazy_property:
        """A property that is computed once per instance; for frozen dataclasses too.

        Python 3.11's `functools.cached_property` holds one lock for all instances of a class while
        it computes. Here two threads may both compute the first value, and get the one stored
        first.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type[Any], name: str) -> None:
            self.name = name

        def __get__(self, instance: object | None, owner: type[Any]) -> Any:
            if instance is None:
                return self
            return vars(instance).setdefault(self.name, self.compute(instance))


_changed = threading.Condition(RenewedLock())  # type: ignore[arg-type]
_at_work: dict[Thread, int] = {}  # and how many times over
_waiting: set[Thread] = set()  # to be alone
_recording: set[Thread] = set()  # at most one of each process


@contextmanager
def working() -> Iterator[None]:
    """Let no other thread run `alone` in this block; wait for threads that do, or want to."""
    me = _me()
    with _changed:
        if me not in _at_work and me not in _recording:  # else they would wait for us
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
    """Wait until no thread is `working`, and let none begin. Yields False if some still are."""
    me = _me()
    with _changed:
        times = _at_work.pop(me, 0)  # a waiting thread does not work
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
    """Continue working when no other thread is alone."""
    _changed.notify_all()
    _changed.wait_for(lambda: not _ours(_recording))
    if times:
        _at_work[me] = times


def _me() -> Thread:
    return os.getpid(), threading.get_ident()


def _ours(threads: dict[Thread, int] | set[Thread]) -> bool:
    """Return whether any of these threads is in this process."""
    return any(process == os.getpid() for process, _ in threads)
