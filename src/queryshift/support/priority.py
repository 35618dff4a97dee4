"""Answers take priority: a background update pauses while a query is answered.

Two threads that call torch take Python's lock from each other at every call, and an answer is so
short that it would take twice its time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .threads import RenewedLock

MAX_WAIT_S = 0.1  # in all: under full load an update has its share, and answers may need it


class _Thread(threading.local):
    """What holds for one thread."""

    wait_left = 0.0  # seconds that it may still pause; more than 0 in background updates only


this_thread = _Thread()
_changed = threading.Condition(RenewedLock())  # type: ignore[arg-type]
_under_way: set[tuple[int, object]] = set()  # answers, each with its process: a fork has none


@contextmanager
def answering() -> Iterator[None]:
    """While this lasts, updates in other threads pause."""
    answer = (os.getpid(), object())
    try:  # from the first: a user may interrupt us anywhere
        with _changed:
            _under_way.add(answer)
        yield
    finally:
        with _changed:
            _under_way.discard(answer)
            _changed.notify_all()


@contextmanager
def yielding(seconds: float | None = None) -> Iterator[None]:
    """Let this thread pause at every `yield_to_answers`, for `seconds` (`MAX_WAIT_S`) in all."""
    before = this_thread.wait_left
    this_thread.wait_left = MAX_WAIT_S if seconds is None else seconds
    try:
        yield
    finally:
        this_thread.wait_left = before


def yield_to_answers() -> None:
    """A place where a thread with time left to wait may pause."""
    wait_left = this_thread.wait_left
    if wait_left <= 0 or not _under_way:
        return
    started = time.perf_counter()
    with _changed:
        _changed.wait_for(lambda: not is_answering(), wait_left)
    this_thread.wait_left = wait_left - (time.perf_counter() - started)


def is_answering() -> bool:
    """Whether any thread of this process is answering."""
    return any(process == os.getpid() for process, _ in _under_way.copy())
