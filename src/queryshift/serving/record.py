"""What is known of a tenant beside its session: mode, counts, clicks, and what happened to it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from queryshift.errors import BadFile
from queryshift.sessions.feedback import ClickScores

from .json_values import iso
from .settings import Mode

EVENTS = 32  # kept, the latest


@dataclass
class Record:
    """One tenant's record; written beside its state.

    Attributes:
        tenant: its name.
        mode: "live", "shadow" or "frozen".
        queries: answered so far.
        batches: of it that were learnt or looked at; rows of its history.
        updates: batches that were learnt.
        drops: groups that were given up because learning was behind.
        resets: returns to the source by its guard.
        created: seconds since the epoch.
        last_seen: when it was last asked.
        events: what its guard did, the latest last.
        clicks: counts by (rank for the source, rank for the adapted answer).
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

    def add_event(self, kind: str, detail: str, when: float) -> None:
        """Keep what happened at the next batch, the latest last.

        Args:
            kind: of the event: "guard", "not_finite", "ordinary" or "failed".
            detail: what happened, in a sentence.
            when: seconds since the epoch.
        """
        event = {"batch": self.batches + 1, "time": iso(when), "event": kind, "detail": detail}
        self.events = [*self.events, event][-EVENTS:]

    def written(self) -> str:
        """The record as JSON."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        clicks = [[*ranks, times] for ranks, times in self.clicks.counts().items()]
        return json.dumps(values | {"clicks": clicks})

    @classmethod
    def read(cls, text: str) -> Record:
        """The record that `written` gave."""
        try:
            values = json.loads(text)
            counts = {(source, adapted): times for source, adapted, times in values["clicks"]}
            return cls(**values | {"clicks": ClickScores(counts)})
        except (ValueError, TypeError, KeyError) as error:
            raise BadFile(f"a tenant's record is damaged ({error}): it starts anew.") from error
