"""Answers before updates: whoever adapts in the background pauses while somebody is answered.

Two threads that call torch take Python's lock from each other at every call, and an answer is so
short that it would take twice its time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

PATIENCE = 0.1  # seconds: an answer may itself wait for what the update holds


class Precedence:
    """Knows whether anybody is being answered."""

    def __init__(self) -> None:
        self._lock, self._nobody = threading.Lock(), threading.Event()
        self._nobody.set()
        self._answers = self._latest = self._outlasted = 0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, those who give way wait."""
        with self._lock:
            self._answers, self._latest = self._answers + 1, self._latest + 1
            self._nobody.clear()
        try:
            yield
        finally:
            with self._lock:
                self._answers -= 1
                if not self._answers:
                    self._nobody.set()

    def give_way(self) -> None:
        """Wait until nobody is being answered, but for one answer never longer than `PATIENCE`."""
        latest = self._latest
        if self._nobody.is_set() or latest == self._outlasted:
            return
        if not self._nobody.wait(PATIENCE):
            self._outlasted = latest


class GivingWay(TorchFunctionMode):
    """Lets answers pass before every call of torch in this thread."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call, when nobody waits."""
        ANSWERS.give_way()
        return func(*args, **(kwargs or {}))


ANSWERS = Precedence()
"""Those of all sessions: they share one background thread."""
