"""Values that are written to the store and read from it, and why a write is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queryshift.errors import Error
from queryshift.sessions.feedback import Ranks
from queryshift.sessions.state_file import Snapshot, state_bytes

from ..errors import NotFound
from ..settings import Mode
from .record import Record


class Stale(Error):
    """Another process has changed the tenant since it was read."""


class Gone(NotFound):
    """The tenant was deleted."""


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
        row: the latest of its history.
        saved_by: names the latest changes, the last one first.
        new: whether it was made just now.
    """

    id: int
    version: int
    record: Record
    state: StoredState | None
    row: dict[str, Any] | None
    saved_by: str
    new: bool = False


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
        mode: a new one, or None.
        state: a new one, or None.
        rows: of its history.
        keep_rows: how many of its history stay.
        told: whether other processes are told at once: an operator's change.
    """

    id: int
    seen: int
    token: str
    counts: Mapping[str, int]
    last_seen: float
    clicks: Mapping[Ranks, int] = field(default_factory=dict)
    events: Sequence[dict[str, Any]] = ()
    mode: Mode | None = None
    state: Snapshot | None = None
    rows: Sequence[dict[str, Any]] = ()
    keep_rows: int = 0
    told: bool = False

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
