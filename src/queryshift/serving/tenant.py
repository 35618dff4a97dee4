"""A tenant in memory: its session, its record, and what is kept to be looked at."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from dataclasses import replace
from typing import Any

from queryshift.errors import Error
from queryshift.sessions.events import Event
from queryshift.sessions.feedback import ClickScores, Ranks
from queryshift.sessions.policy import standing_weight
from queryshift.sessions.session import Session
from queryshift.sessions.state import State
from queryshift.sessions.state_file import Snapshot

from .answering.learning_queue import MEASURES
from .clicks import RecentAnswers, click_summary
from .collection import Collection
from .json_values import iso, plain
from .store.snapshot_rows import SnapshotRows
from .store.stored_tenant import COUNTS, Change, Record, StoredTenant

logger = logging.getLogger("queryshift.serving")
RECENT_ROWS = 256  # of its history that are in memory


class Tenant:
    """One tenant; only its collection's owner changes it.

    Attributes:
        session: what it has learnt.
        record: what else is known of it.
        stored: the same as it was last read or written.
        id: its number in the store.
        seen: the version that its session goes on from.
        made_for: the collection that its session was made for.
        rows: the latest of its history.
        unwritten: rows of its history that are not stored yet.
        answers: to recent requests, for which clicks may come.
        latest: its latest queries, where the operator allows keeping them.
        in_use: requests and updates that need it in memory.
        changes: of its session that are under way: until they end it keeps that session.
        changed_at: when something changed that is not stored yet; None: nothing has.
        settled: its session when the latest batch was counted: what is written next.
        saved_state: the state that is stored.
        attempt: a change whose writing failed; nobody knows whether it was made.
        answered_by: who gave the latest answer by its session; None: nobody yet.
        contended_until: until when each batch is written at once: other processes learn too.
        learnt_since_save: batches that are not stored yet.
        drops_told: drops that its history knows of.
        news: kinds of events that were not counted yet.
        saving: held while it is written.
    """

    def __init__(self, stored: StoredTenant, session: Session, made_for: Collection) -> None:
        self.session, self.made_for, session.on_event = session, made_for, self.note
        self.record, self.stored = stored.record, _copy(stored.record)
        self.id, self.seen = stored.id, stored.version
        self.rows = deque(stored.last_rows, maxlen=RECENT_ROWS)
        self.unwritten: deque[dict[str, Any]] = deque(maxlen=RECENT_ROWS)
        self.latest: deque[dict[str, Any]] = deque(maxlen=made_for.settings.keep_queries)
        self.news: deque[str] = deque()
        self.answers = RecentAnswers()
        self.answered_by: str | None = None
        self.in_use = self.changes = self.learnt_since_save = 0
        self.drops_told = self.record.drops
        self.changed_at: float | None = None
        self.contended_until = 0.0
        self.attempt: Change | None = None
        self.saving = asyncio.Lock()
        self._summary: tuple[int, dict[str, Any] | None] = (0, None)  # of so many clicks
        self.settle(session.state)
        self.saved_state = self.settled.state

    @property
    def name(self) -> str:
        """The tenant's name."""
        return self.record.tenant

    def settle(self, state: State) -> None:
        """Take a state of its session for what is written next."""
        self.settled = replace(self.session.snapshot(history=False), state=state)

    def unsaved(self, token: str, keep_rows: int, told: bool) -> Change:
        """All that is not stored yet, with the mode where an operator is `told` that it is."""
        record, stored = self.record, self.stored
        counts = {name: getattr(record, name) - getattr(stored, name) for name in COUNTS}
        mode = record.mode if told else None  # though it seems the same: others may have changed it
        state = self.settled if self.settled.state is not self.saved_state else None
        added = (self._new_clicks(), record.new_events, mode, state, list(self.unwritten))
        about = (self.id, self.seen, token, counts, record.last_seen)
        return Change(*about, *added, keep_rows)

    def _new_clicks(self) -> Counter[Ranks]:
        """Those that are not stored yet."""
        clicks = Counter(self.record.clicks.counts())
        clicks.subtract(self.stored.clicks.counts())
        return +clicks

    def committed(self, change: Change, version: int) -> None:
        """Note that a change is stored."""
        stored = self.stored
        for name, count in change.counts.items():
            setattr(stored, name, getattr(stored, name) + count)
        stored.clicks = ClickScores(Counter(stored.clicks.counts()) + Counter(change.clicks))
        stored.mode = change.mode or stored.mode
        sent = {id(event) for event in change.events}
        left = [event for event in self.record.new_events if id(event) not in sent]
        self.record.new_events = left
        last = change.rows[-1]["batch"] if change.rows else 0
        while self.unwritten and self.unwritten[0]["batch"] <= last:
            self.unwritten.popleft()
        if change.checked:
            self.seen = version
        if isinstance(change.state, Snapshot):
            self.saved_state = change.state.state

    def follow(self, stored: StoredTenant) -> int:
        """Take over what others have stored; what was counted here since is added to it.

        Where they have changed the tenant, its session must have their state already. What was
        learnt here since is dropped; how many batches is returned.
        """
        before, base, record = self.record, self.stored, stored.record
        clicks, self.stored = self._new_clicks(), _copy(record)
        record.clicks = ClickScores(Counter(record.clicks.counts()) + clicks)
        record.last_seen = max(record.last_seen, before.last_seen)
        record.events, record.new_events = record.events + before.new_events, before.new_events
        same = stored.version == self.seen
        for name in COUNTS if same else ("queries", "drops"):
            added = getattr(before, name) - getattr(base, name)
            setattr(record, name, getattr(record, name) + added)
        self.record = record
        if same:
            return 0
        lost = before.batches - base.batches
        record.drops += lost
        self.seen, self.learnt_since_save = stored.version, 0
        self.saved_state = self.settled.state
        self.unwritten.clear()
        self.rows.clear()
        self.rows.extend(stored.last_rows)
        return lost

    def changed(self) -> None:
        """Note that something is not stored yet."""
        if self.changed_at is None:
            self.changed_at = time.monotonic()

    def add_row(self, learnt: dict[str, Any], delay: float) -> dict[str, Any]:
        """Count a learnt batch; the row of its statistics that the history has.

        Args:
            learnt: the statistics.
            delay: seconds from its group being complete until it was learnt.
        """
        record = self.record
        record.batches += 1
        record.updates += learnt["updated"]
        given_up, self.drops_told = record.drops - self.drops_told, record.drops
        row = {"batch": record.batches, **learnt, "dropped": given_up, "delay": round(delay, 3)}
        self.rows.append(row)
        self.unwritten.append(row)
        self.learnt_since_save += 1
        self.changed()
        return row

    def clicks_told(self) -> dict[str, Any] | None:
        """What its clicks say; made anew, which takes a while, where there are more of them."""
        total = sum(self.record.clicks.counts().values())
        if total != self._summary[0]:
            self._summary = total, click_summary(self.record.clicks)
        return self._summary[1]

    def note(self, event: Event) -> None:
        """Keep what happened to its session; called by the thread that learns."""
        if event.kind != "dropped":
            self.record.resets += event.kind in ("guard", "not_finite")
            self.news.append(event.kind)
            self.record.add_event(event.kind, event.reason, event.time)

    def about(self, pending: int) -> dict[str, Any]:
        """What clients are told of it."""
        record, last = self.record, self.rows[-1] if self.rows else {}
        shift = {name: last.get(name) for name in (*MEASURES, "agreement", "strangeness")}
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
            "shift": shift if last else None,
            "guard": {"resets": record.resets, "events": record.events},
            "clicks": self.clicks_told(),
        }

    def learning(self) -> dict[str, Any]:
        """How much it has learnt, how much was given up, and how late the last group was learnt."""
        delay = self.rows[-1].get("delay") if self.rows else None
        return {"updates": self.record.updates, "drops": self.record.drops, "delay": delay}

    def _answers_by(self) -> str:
        """Who gave the latest answer, "source", "adapted" or "both"; before one, who would."""
        if self.record.mode != "live":
            return "source"
        if self.answered_by is not None:
            return self.answered_by
        share = standing_weight(self.session.adaptation, self.session.state)
        return "source" if share == 0 else "adapted" if share == 1 else "both"

    def report(self) -> dict[str, Any]:
        """Where its session stands: settings in force and the latest batch's statistics."""
        session, stats = self.session, map(vars, self.session.history[-1:])
        return {
            "lr": session.method.rate,
            "temperature": session.method.tau,
            "steps": session.settings.steps,
            "adapted_parameters": int(session.state.adapted.values.numel()),
            "updates_in_force": session.state.adapted.updates,
            "answers_by": self._answers_by(),
            "latest": next(({name: plain(one[name]) for name in one} for one in stats), None),
        }


def session_of(stored: StoredTenant, collection: Collection, snapshots: SnapshotRows) -> Session:
    """The session of a tenant; a fresh one where it has no state, or one that no longer fits.

    A state that no longer fits is kept aside as a snapshot, never lost.
    """
    name, state = stored.record.tenant, stored.state
    if state is not None:
        try:
            return collection.opened(state, same_gallery=True, name=name)
        except Error as error:
            why = f"the stored state is kept aside, and the source answers: {error}"
        logger.warning('tenant "%s" starts anew: %s', name, why)
        where = (stored.id, stored.version, state, stored.record.batches, why)
        if (event := snapshots.keep_aside(*where)) is not None:
            stored.record.events.append(event)
    return collection.session(name=name)


def _copy(record: Record) -> Record:
    return replace(record, clicks=ClickScores(record.clicks.counts()))
