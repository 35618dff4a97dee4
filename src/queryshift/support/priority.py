"""Answers before updates: whoever adapts in the background pauses while somebody is answered.

Two threads that call torch take Python's lock from each other at every call, and an answer is so
short that it would take twice its time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

PATIENCE = 0.1  # seconds in all: under full load an update has its share, and answers may need it

_here = threading.local()


class _Answers:
    """Those under way in one process: a forked one has none, whatever its parent was doing."""

    def __init__(self) -> None:
        self.lock, self.nobody = threading.Lock(), threading.Event()
        self.under_way: set[object] = set()
        self.nobody.set()


@cache
def _answers(process: int) -> _Answers:
    return _Answers()


@contextmanager
def answering() -> Iterator[None]:
    """While this lasts, threads that give way wait."""
    answer, all_here = object(), _answers(os.getpid())
    try:  # from the first: a user may interrupt us anywhere
        with all_here.lock:
            all_here.under_way.add(answer)
            all_here.nobody.clear()
        yield
    finally:
        with all_here.lock:
            all_here.under_way.discard(answer)
            if not all_here.under_way:
                all_here.nobody.set()


@contextmanager
def yielding() -> Iterator[None]:
    """Let this thread wait at every `yield_to_answers`, until its patience is at an end."""
    _here.patience = PATIENCE
    try:
        yield
    finally:
        _here.patience = 0.0


def yield_to_answers() -> None:
    """A place where an update may pause; anybody else passes at no cost."""
    patience = getattr(_here, "patience", 0.0)
    if patience <= 0 or (nobody := _answers(os.getpid()).nobody).is_set():
        return
    started = time.perf_counter()
    nobody.wait(patience)
    _here.patience = patience - (time.perf_counter() - started)
