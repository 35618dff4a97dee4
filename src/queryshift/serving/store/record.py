"""What is known of a tenant beside its session: mode, counts, clicks, and what happened to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from queryshift.sessions.feedback import ClickScores

from ..json_values import iso
from ..settings import Mode

EVENTS = 32  # kept, the latest
COUNTS = ("queries", "batches", "updates", "drops", "resets")


@dataclass
class Record:
    """One tenant's record; stored beside its state.

    Attributes:
        tenant: its name.
        mode: "live", "shadow" or "frozen".
        queries: answered so far.
        batches: of it that were learnt or looked at; rows of its history.
        updates: batches that were learnt.
        drops: groups that were given up because learning was behind, or another process faster.
        resets: returns to the source by its guard.
        created: seconds since the epoch.
        last_seen: when it was last asked.
        events: what its guard did, the latest last.
        clicks: counts by (rank for the source, rank for the adapted answer).
        new_events: those of them that are not stored yet.
    """

    tenant: str
    mode: Mode
    queries: int = 0
    batches: int = 0
    updates: int = 0
    drops: int = 0
    resets: int = 0
    created: float = 0.0
    last_seen: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    clicks: ClickScores = field(default_factory=ClickScores)
    new_events: list[dict[str, Any]] = field(default_factory=list)

    def add_event(self, kind: str, detail: str, when: float) -> None:
        """Keep what happened at the next batch, the latest last.

        Args:
            kind: of the event: "guard", "not_finite", "ordinary", "failed" or "kept_aside".
            detail: what happened, in a sentence.
            when: seconds since the epoch.
        """
        event = {"batch": self.batches + 1, "time": iso(when), "event": kind, "detail": detail}
        self.events = [*self.events, event][-EVENTS:]
        self.new_events = [*self.new_events, event][-EVENTS:]
