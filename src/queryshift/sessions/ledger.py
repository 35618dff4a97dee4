"""What is in force in a session, and the statistics of its batches: the only thing that changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from queryshift.galleries import Searchable
from queryshift.support.locks import RenewedLock

from .batch_result import BatchResult
from .batch_stats import BatchStats
from .state import State


@dataclass(frozen=True)
class InForce:
    """What answers now. A value: read once, its parts belong together."""

    state: State
    previous: State | None  # before the last batch, for `undo`
    gallery: Searchable

    def same_learning(self, other: InForce) -> bool:
        """Whether nothing was learnt, given up, undone or moved between two of these."""
        left, right = self.state, other.state
        learnt = left.adapted is right.adapted and left.memory is right.memory
        return (
            learnt
            and left.ordinary_streak == right.ordinary_streak
            and self.gallery is other.gallery
        )


class Ledger:
    """State, gallery and history of one session. Its lock is held for a moment only.

    Reading `now` needs no lock: it is one reference, and what it refers to never changes.
    """

    def __init__(self, state: State, gallery: Searchable, size: int) -> None:
        self.now = InForce(state, None, gallery)
        self.history: list[BatchStats] = []
        self.lock = RenewedLock()
        self._size = size

    def enter(self, result: BatchResult, before: State, learns: bool) -> BatchStats:
        """Put a result's state in force, counted behind batches answered in the meantime.

        A batch that was only answered changes nothing but the count where another thread has
        learnt since `before`.
        """
        with self.lock:
            state, now = result.state, self.now
            if not learns and now.state is not before:
                state = now.state
            count = now.state.batches + 1
            state = state if state.batches == count else replace(state, batches=count)
            stats = replace(result.stats, batch=count, time=time.time())
            self.now = replace(now, state=state, previous=now.state)
            self.history.append(stats)
            del self.history[: -self._size]
        return stats

    def replace(self, now: InForce, history: Sequence[BatchStats]) -> None:
        """Put something else in force, with another history."""
        with self.lock:
            self.now, self.history = now, list(history)

    def copy(self) -> tuple[InForce, list[BatchStats]]:
        """What is in force and the history, as of one moment."""
        with self.lock:
            return self.now, list(self.history)
