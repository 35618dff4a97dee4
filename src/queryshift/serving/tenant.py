"""A tenant in memory: its session, its record, and what is kept to be looked at."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from queryshift.sessions.events import Event
from queryshift.sessions.session import Session
from queryshift.sessions.state import State

from .clicks import RecentAnswers, click_summary
from .collection import Collection
from .json_values import iso, plain
from .record import Record
from .tenant_files import TenantFiles

RECENT_ROWS = 256  # of its history that are in memory


@dataclass(eq=False)
class Tenant:
    """One tenant; only its collection's owner changes it.

    Attributes:
        session: what it has learnt.
        record: what else is known of it.
        files: where it is written.
        made_for: the collection that its session was made for.
        rows: the latest of its history.
        unwritten: rows of its history that are not on disk yet.
        answers: to recent requests, for which clicks may come.
        latest: its latest queries, where the operator allows keeping them.
        in_use: requests and updates that need it in memory.
        changes: of its session that are under way: until they end it keeps that session.
        changed_at: when something changed that is not on disk yet; None: nothing has.
        saved_state: the state that is on disk, if it is known.
        learnt_since_save: batches that are not on disk yet.
        drops_told: drops that its history knows of.
        news: kinds of events that were not counted yet.
        saving: held while it is written.
    """

    session: Session
    record: Record
    files: TenantFiles
    made_for: Collection
    keep: int = 0
    rows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=RECENT_ROWS))
    unwritten: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=RECENT_ROWS))
    answers: RecentAnswers = field(default_factory=RecentAnswers)
    latest: deque[dict[str, Any]] = field(default_factory=deque)
    in_use: int = 0
    changes: int = 0
    changed_at: float | None = None
    saved_state: State | None = None
    learnt_since_save: int = 0
    drops_told: int = 0
    news: deque[str] = field(default_factory=deque)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    _summary: tuple[int, dict[str, Any] | None] = (0, None)  # of so many clicks

    @property
    def name(self) -> str:
        """The tenant's name."""
        return self.record.tenant

    def changed(self) -> None:
        """Note that something is not on disk yet."""
        if self.changed_at is None:
            self.changed_at = time.monotonic()

    def add_row(self, row: dict[str, Any]) -> None:
        """Take a learnt batch's statistics into the history."""
        self.rows.append(row)
        self.unwritten.append(row)
        self.learnt_since_save += 1
        self.changed()

    def written(self, last: int) -> None:
        """Note that rows of its history are on disk, up to number `last`."""
        while self.unwritten and self.unwritten[0]["batch"] <= last:
            self.unwritten.popleft()

    def new_drops(self) -> int:
        """Groups given up since this was last asked."""
        before, self.drops_told = self.drops_told, self.record.drops
        return self.record.drops - before

    def clicks_told(self) -> dict[str, Any] | None:
        """What its clicks say; made anew, which takes a while, where there are more of them."""
        total = sum(self.record.clicks.counts().values())
        if total != self._summary[0]:
            self._summary = total, click_summary(self.record.clicks)
        return self._summary[1]

    def keep_query(self, row: dict[str, Any]) -> None:
        """Keep one of the latest queries; in memory only."""
        self.latest.append(row)
        while len(self.latest) > self.keep:
            self.latest.popleft()

    def note(self, event: Event) -> None:
        """Keep what happened to its session; called by the thread that learns."""
        if event.kind != "dropped":
            self.record.resets += event.kind in ("guard", "not_finite")
            self.news.append(event.kind)
            self.record.add_event(event.kind, event.reason, event.time)

    def about(self, pending: int) -> dict[str, Any]:
        """What clients are told of it."""
        record, last = self.record, self.rows[-1] if self.rows else None
        measures = ("strangeness", "spread", "gap", "entropy", "agreement")
        return {
            "tenant": record.tenant,
            "mode": record.mode,
            "method": self.session.method.name,
            "queries": record.queries,
            "batches": record.batches,
            **self.learning(),
            "pending": pending,
            "created": iso(record.created),
            "last_seen": iso(record.last_seen),
            "report": self.report(),
            "shift": None if last is None else {name: last[name] for name in measures},
            "guard": {"resets": record.resets, "events": record.events},
            "clicks": self.clicks_told(),
        }

    def learning(self) -> dict[str, Any]:
        """How much it has learnt, how much was given up, and how late the last group was learnt."""
        delay = self.rows[-1].get("delay") if self.rows else None
        return {"updates": self.record.updates, "drops": self.record.drops, "delay": delay}

    def _answers_by(self) -> str:
        """Who answers a query that comes by itself; one that comes with others is judged anew."""
        adaptation, state = self.session.adaptation, self.session.state
        by_source = self.record.mode != "live" or adaptation.answered_by_source(state)
        return "source" if by_source else "adapted"

    def report(self) -> dict[str, Any]:
        """Where its session stands: settings in force and the latest batch's statistics."""
        session, stats = self.session, self.session.history[-1:]
        return {
            "lr": session.method.rate,
            "temperature": session.method.tau,
            "steps": session.settings.steps,
            "adapted_parameters": int(session.state.adapted.values.numel()),
            "updates_in_force": session.state.adapted.updates,
            "answers_by": self._answers_by(),
            "latest": {name: plain(value) for name, value in vars(stats[0]).items()}
            if stats
            else None,
        }
