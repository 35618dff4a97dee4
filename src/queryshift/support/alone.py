"""One thread alone: while it records a CUDA graph, sessions in other threads wait.

A graph is recorded from one thread, and whatever others do with the device meanwhile can spoil the
recording or fail itself. So work on a device is done inside `working`, and recorded inside `alone`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .locks import RenewedLock

MAX_WAIT_S = 0.2  # for others to finish their work; they may wait for something that we hold

Thread = tuple[int, int]  # with its process: a fork has one thread, and none of its parent's

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
