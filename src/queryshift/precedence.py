"""Answers before updates: whoever adapts in the background pauses while somebody is answered.

Two threads that call torch take Python's lock from each other at every call, and an answer is so
short that it would take twice its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

PATIENCE = 0.1  # seconds in all: under full load an update has its share, and answers may need it


class Precedence:
    """Knows whether anybody is being answered."""

    def __init__(self) -> None:
        self._answers, self._lock, self._nobody = 0, threading.Lock(), threading.Event()
        self._nobody.set()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, those who give way wait."""
        with self._lock:
            self._answers += 1
            self._nobody.clear()
        try:
            yield
        finally:
            with self._lock:
                self._answers -= 1
                if not self._answers:
                    self._nobody.set()

    def give_way(self, longest: float) -> float:
        """Wait until nobody is being answered, or so many seconds; how many it took."""
        if longest <= 0 or self._nobody.is_set():
            return 0.0
        started = time.perf_counter()
        self._nobody.wait(longest)
        return time.perf_counter() - started


class GivingWay(TorchFunctionMode):
    """Lets answers pass before every call of torch in this thread, until patience is at its end."""

    def __init__(self) -> None:
        super().__init__()
        self._patience = PATIENCE

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call, when nobody waits."""
        self._patience -= ANSWERS.give_way(self._patience)
        return func(*args, **(kwargs or {}))


ANSWERS = Precedence()
"""Those of all sessions: they share one background thread."""
