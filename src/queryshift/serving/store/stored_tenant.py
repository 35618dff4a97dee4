"""A tenant as it is stored, a change of it, and why a change is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queryshift.errors import Error
from queryshift.sessions.feedback import ClickScores, Ranks
from queryshift.sessions.state_file import Snapshot, state_bytes

from ..errors import NotFound
from ..json_values import iso
from ..settings import Mode

EVENTS = 32  # kept, the latest
STATE = ("encoder", "gallery", "content")  # columns of a stored state
COUNTS = ("queries", "batches", "updates", "drops", "resets")


class Stale(Error):
    """Another process has changed the tenant since it was read."""


class Gone(NotFound):
    """The tenant was deleted."""


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
        resets: resets by its guard.
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
            kind: of the event: as of a session, "failed" or "kept_aside".
            detail: what happened, in a sentence.
            when: seconds since the epoch.
        """
        event = {"batch": self.batches + 1, "time": iso(when), "event": kind, "detail": detail}
        self.events = [*self.events, event][-EVENTS:]
        self.new_events = [*self.new_events, event][-EVENTS:]


@dataclass(frozen=True)
class StoredState:
    """A state as it is stored.

    Attributes:
        content: a session file's bytes, with their checksum.
        encoder: fingerprint of the encoder it was learnt with.
        gallery: version of its gallery.
    """

    content: bytes
    encoder: str
    gallery: str


@dataclass(frozen=True)
class StoredTenant:
    """A tenant as it is stored.

    Attributes:
        id: its number.
        version: grows with every change but counts.
        record: mode, counts, events and clicks.
        state: what it has learnt; None: nothing yet.
        last_rows: the latest of its history, if there is any.
        saved_by: names the latest changes, the last one first.
    """

    id: int
    version: int
    record: Record
    state: StoredState | None
    last_rows: list[dict[str, Any]]
    saved_by: str


@dataclass(frozen=True)
class Change:
    """What is to be written of a tenant at once.

    Attributes:
        id: the tenant's number.
        seen: the version that it was made on.
        token: names this change, so that one that is sent again is made once.
        counts: to be added, by column.
        last_seen: when it was last asked.
        clicks: to be added, by ranks.
        events: that happened.
        mode: the one that an operator left it in with this change, or None.
        state: a new one, or None.
        rows: of its history.
        keep_rows: how many of its history stay.
    """

    id: int
    seen: int
    token: str
    counts: Mapping[str, int]
    last_seen: float
    clicks: Mapping[Ranks, int] = field(default_factory=dict)
    events: Sequence[dict[str, Any]] = ()
    mode: Mode | None = None
    state: Snapshot | StoredState | None = None
    rows: Sequence[dict[str, Any]] = ()
    keep_rows: int = 0

    @property
    def checked(self) -> bool:
        """Whether it is refused where the version is another one."""
        return self.state is not None or self.mode is not None or bool(self.rows)

    def counted_only(self) -> Change:
        """The same without what was learnt or changed."""
        counts = {name: self.counts[name] for name in ("queries", "drops")}
        token = f"{self.token}-counts"
        return replace(self, token=token, counts=counts, mode=None, state=None, rows=())


def stored_state(taken: Snapshot) -> StoredState:
    """A session's state as it is stored."""
    return StoredState(state_bytes(taken), taken.encoder.fingerprint(), taken.gallery.version)


def state_of(row: Any) -> StoredState:
    """The state of a row that has one."""
    return StoredState(bytes(row.content), row.encoder, row.gallery)
