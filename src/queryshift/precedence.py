"""Answers before updates: whoever adapts in the background pauses while somebody is answered.

Two threads that call torch take Python's lock from each other at every call, and an answer is so
short that it would take twice its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.1  # seconds in all: under full load an update has its share, and answers may need it

_lock, _nobody, _here = threading.Lock(), threading.Event(), threading.local()
_under_way: set[object] = set()
_nobody.set()


@contextmanager
def answering() -> Iterator[None]:
    """While this lasts, threads that give way wait."""
    answer = object()
    with _lock:
        _under_way.add(answer)
        _nobody.clear()
    try:
        yield
    finally:
        with _lock:
            _under_way.remove(answer)
            if not _under_way:
                _nobody.set()


@contextmanager
def giving_way() -> Iterator[None]:
    """Let this thread wait at every `give_way`, until its patience is at an end."""
    _here.patience = PATIENCE
    try:
        yield
    finally:
        _here.patience = 0.0


def give_way() -> None:
    """A place where an update may pause; anybody else passes at no cost."""
    patience = getattr(_here, "patience", 0.0)
    if patience <= 0 or _nobody.is_set():
        return
    started = time.perf_counter()
    _nobody.wait(patience)
    _here.patience = patience - (time.perf_counter() - started)
