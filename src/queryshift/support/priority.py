"""Answers take priority: a background update pauses while a query is answered.

Two threads that call torch compete for Python's lock at every call, so a short answer would take
twice as long.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .threads import RenewedLock

MAX_WAIT_S = 0.1  # per update, so that updates finish under full load too


class _Thread(threading.local):
    """Values of one thread."""

    wait_left = 0.0  # seconds that it may still pause; 0 except in background updates


this_thread = _Thread()
_changed = threading.Condition(RenewedLock())  # type: ignore[arg-type]
_under_way: set[tuple[int, object]] = set()  # answers with their process: forks have none


@contextmanager
def answering() -> Iterator[None]:
    """While this lasts, updates in other threads pause."""
    answer = (os.getpid(), object())
    try:  # starts here, as an interrupt may come anywhere
        with _changed:
            _under_way.add(answer)
        yield
    finally:
        with _changed:
            _under_way.discard(answer)
            _changed.notify_all()


@contextmanager
def yielding(seconds: float | None = None) -> Iterator[None]:
    """Let this thread pause in `yield_to_answers`, `seconds` (default `MAX_WAIT_S`) in total."""
    before = this_thread.wait_left
    this_thread.wait_left = MAX_WAIT_S if seconds is None else seconds
    try:
        yield
    finally:
        this_thread.wait_left = before


def yield_to_answers() -> None:
    """Pause while another thread answers, if this thread has waiting time left."""
    wait_left = this_thread.wait_left
    if wait_left <= 0 or not _under_way:
        return
    started = time.perf_counter()
    with _changed:
        _changed.wait_for(lambda: not is_answering(), wait_left)
    this_thread.wait_left = wait_left - (time.perf_counter() - started)


def is_answering() -> bool:
    """Return whether any thread of this process is answering."""
    return any(process == os.getpid() for process, _ in _under_way.copy())
