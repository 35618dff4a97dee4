"""What is stored of a collection: its tenants, read whole, written whole or not at all; a sample.

A row has a version. What was learnt is written `WHERE version = :seen`: who learnt on a version
that another process has replaced is refused with `Stale`. Counts are added, and lose nothing. The
row names its latest changes, so that one that is sent again, since nobody acknowledged it, is made
once, also where other processes have changed the tenant in between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

from sqlalchemy import Connection, text

from queryshift.sessions.feedback import ClickScores
from queryshift.sessions.state_file import Snapshot

from ..errors import Damaged
from ..json_values import iso
from ..settings import Mode
from .database import Database, insert
from .stored_tenant import (
    COUNTS,
    EVENTS,
    STATE,
    Change,
    Gone,
    Record,
    Stale,
    StoredTenant,
    state_of,
    stored_state,
)

DAY = 86_400.0  # seconds
TOKENS = 2000  # characters of the names of the latest changes: about 70 of them
AT_ONCE = 1000  # numbers of tenants in one statement


class TenantRows:
    """The stored tenants of one collection; called from threads.

    Args:
        database: where they are.
        collection: the collection's name.

    Attributes:
        shared: whether other processes may change them.
    """

    def __init__(self, database: Database, collection: str) -> None:
        self._database, self._collection, self.shared = database, collection, database.shared

    def find(self, name: str) -> StoredTenant | None:
        """A tenant by its name; None where there is none."""
        with self._database.reading() as connection:
            return self._read(connection, BY_NAME, name=name)

    def read(self, id: int) -> StoredTenant | None:
        """A tenant by its number; None where it was deleted."""
        with self._database.reading() as connection:
            return self._read(connection, "id = :id", id=id)

    def make(
        self, name: str, mode: Mode, most: int, created: float | None = None
    ) -> StoredTenant | None:
        """The tenant, made where there is none; None where there are as many as may be."""
        values = {"collection": self._collection, "name": name, "mode": mode, "most": most}
        values["now"] = time.time() if created is None else created
        with self._database.writing() as connection:
            connection.execute(text(MAKE), values)
            return self._read(connection, BY_NAME, name=name)

    def commit(self, change: Change) -> int:
        """Write a change, whole or not at all; the version that the tenant has then.

        Raises `Stale` where another process was faster, `Gone` where the tenant was deleted.
        """
        content = stored_state(change.state) if isinstance(change.state, Snapshot) else change.state
        with self._database.writing(tells=change.mode is not None) as connection:
            if not self._update(connection, change):
                return change.seen + change.checked  # it was made before, by this very change
            whose = {"tenant_id": change.id}
            if content is not None:
                connection.execute(PUT_STATE, {**whose, **vars(content)})
            if rows := change.rows:
                values = [{**_dated(change.id, row), "batch": row["batch"]} for row in rows]
                connection.execute(ADD_ROW, values)
                last = rows[-1]["batch"] - change.keep_rows
                connection.execute(text(CUT_ROWS), {**whose, "last": last})
            if change.clicks:
                whose["day"] = int(time.time() // DAY)
                clicks = [
                    {**whose, "source": source, "adapted": adapted, "times": times}
                    for (source, adapted), times in change.clicks.items()
                ]
                connection.execute(ADD_CLICKS, clicks)
            add_events(connection, change.id, change.events)
        return change.seen + change.checked

    def _update(self, connection: Connection, change: Change) -> bool:
        """Change the tenant's own row; whether this change was not made before."""
        own = {name: getattr(change, name) for name in ("id", "token", "mode", "seen", "last_seen")}
        values = {**dict.fromkeys(COUNTS, 0), **change.counts, **own, "step": int(change.checked)}
        statement = f"{UPDATE} AND version = :seen" if change.checked else UPDATE
        if connection.execute(text(statement), values).rowcount == 1:
            return True
        now = connection.execute(text(SAVED), values).first()
        if now is None:
            raise Gone("the tenant was deleted.")
        if change.token not in now.saved_by:
            raise Stale(f"version {change.seen} was changed, {now.version} is stored.")
        return False

    def versions(self, ids: Sequence[int]) -> dict[int, int]:
        """The versions of these tenants, without those that were deleted."""
        parts = (list(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE))
        statement = "SELECT id, version FROM tenants WHERE id IN :ids"
        found = (self._database.rows(statement, ids=part) for part in parts)
        return {row.id: row.version for rows in found for row in rows}

    def listed(self, after: str, limit: int, among: Sequence[str] | None) -> list[dict[str, Any]]:
        """Tenants by name, those behind `after`; only those `among` these names, if given."""
        if among is not None and not among:
            return []
        statement = LIST.format(which="" if among is None else "AND name IN :among")
        which = {} if among is None else {"among": list(among)}
        values = {"collection": self._collection, "after": after, "limit": limit, **which}
        rows = self._database.rows(statement, **values)
        return [dict(row._mapping) | {"last_seen": iso(row.last_seen)} for row in rows]

    def count(self) -> int:
        """How many tenants there are."""
        statement = "SELECT count(*) FROM tenants WHERE collection = :collection"
        return int(self._database.rows(statement, collection=self._collection)[0][0])

    def history(self, id: int, since: int, limit: int) -> list[dict[str, Any]]:
        """Rows of a tenant's history after number `since`; a damaged one is passed over."""
        rows = self._database.rows(HISTORY, id=id, since=since, limit=limit)
        return _history([row.content for row in rows])

    def reference(self) -> tuple[int, str] | None:
        """The sample of reference queries that was put last, as JSON, with its version."""
        statement = "SELECT version, ordinary FROM collections WHERE name = :name"
        found = self._database.rows(statement, name=self._collection)
        return next((tuple(row) for row in found), None)

    def put_reference(self, sample: str) -> int:
        """Put a sample in the place of the last one; its version."""
        with self._database.writing(tells=True) as connection:
            values = {"name": self._collection, "ordinary": sample}
            version = connection.scalar(text(PUT_REFERENCE), values)
            return int(version or 0)

    def delete(self, name: str) -> bool:
        """Delete a tenant and all that is stored of it; whether there was one."""
        values = {"collection": self._collection, "name": name}
        with self._database.writing(forgets=True, tells=True) as connection:
            connection.execute(text(DELETE_KEYS), values)
            deleted = connection.execute(text(f"DELETE FROM tenants WHERE {BY_NAME}"), values)
        return deleted.rowcount > 0

    def _read(self, connection: Connection, where: str, **values: Any) -> StoredTenant | None:
        values["collection"] = self._collection
        row = connection.execute(text(f"SELECT * FROM tenants WHERE {where}"), values).first()
        if row is None:
            return None
        whole = all(isinstance(getattr(row, name), int) for name in ("version", *COUNTS))
        if row.mode not in get_args(Mode) or not whole:
            told = f'the stored row of tenant "{row.name}" is damaged (mode "{row.mode}")'
            raise Damaged(f"{told}: restore it from a backup, or delete the tenant.")
        values = {"id": row.id}
        events = connection.scalars(text(EVENTS_OF), values).all()
        clicks = connection.execute(text(CLICKS_OF), values)
        last = connection.scalars(text(LAST_ROW), values).all()
        kept = connection.execute(text(STATE_OF), values).first()
        record = Record(
            row.name,
            row.mode,
            **{name: getattr(row, name) for name in (*COUNTS, "created", "last_seen")},
            events=_parsed(events),
            clicks=ClickScores({(one.source, one.adapted): int(one.times) for one in clicks}),
        )
        state = None if kept is None else state_of(kept)
        return StoredTenant(row.id, row.version, record, state, _history(last), row.saved_by)


def add_events(connection: Connection, id: int, events: Sequence[dict[str, Any]]) -> None:
    """Add events; the latest `EVENTS` stay."""
    if events:
        connection.execute(ADD_EVENT, [_dated(id, event) for event in events])
        connection.execute(text(CUT_EVENTS), {"id": id, "most": EVENTS})


def _dated(id: int, content: dict[str, Any]) -> dict[str, Any]:
    return {"tenant_id": id, "at": time.time(), "content": json.dumps(content)}


def _history(contents: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a history; those of old versions have the shift score under its former name."""
    rows = _parsed(contents)
    for row in rows:
        if "strangeness" in row:
            row.setdefault("shift_score", row["strangeness"])
    return rows


def _parsed(contents: Sequence[str]) -> list[dict[str, Any]]:
    """JSON objects, without those that are damaged."""
    found = []
    for content in contents:
        with suppress(ValueError):
            found.append(json.loads(content))
    return [row for row in found if isinstance(row, dict)]


BY_NAME = "collection = :collection AND name = :name"
MAKE = """
INSERT INTO tenants (collection, name, mode, created, last_seen)
SELECT :collection, :name, :mode, CAST(:now AS DOUBLE PRECISION), CAST(:now AS DOUBLE PRECISION)
WHERE (SELECT count(*) FROM tenants WHERE collection = :collection) < :most
ON CONFLICT (collection, name) DO NOTHING
"""
UPDATE = f"""
UPDATE tenants SET version = version + :step, mode = COALESCE(:mode, mode),
saved_by = substr(CAST(:token AS TEXT) || ' ' || saved_by, 1, {TOKENS}),
{", ".join(f"{name} = {name} + :{name}" for name in COUNTS)},
last_seen = CASE WHEN last_seen > :last_seen THEN last_seen ELSE :last_seen END
WHERE id = :id AND saved_by NOT LIKE '%' || CAST(:token AS TEXT) || '%'
"""
SAVED = "SELECT version, saved_by FROM tenants WHERE id = :id"
PUT_STATE = insert("states", ("tenant_id",), STATE)
LIST = """
SELECT name AS tenant, mode, queries, last_seen FROM tenants
WHERE collection = :collection AND name > :after {which} ORDER BY name LIMIT :limit
"""
STATE_OF = "SELECT * FROM states WHERE tenant_id = :id"
EVENTS_OF = "SELECT content FROM events WHERE tenant_id = :id ORDER BY id"
CLICKS_OF = """
SELECT source, adapted, sum(times) AS times FROM clicks WHERE tenant_id = :id
GROUP BY source, adapted
"""
LAST_ROW = "SELECT content FROM history WHERE tenant_id = :id ORDER BY batch DESC LIMIT 1"
HISTORY = """
SELECT content FROM history WHERE tenant_id = :id AND batch > :since ORDER BY batch LIMIT :limit
"""
ADD_ROW = insert("history", (), ("tenant_id", "batch", "at", "content"))
CUT_ROWS = "DELETE FROM history WHERE tenant_id = :tenant_id AND batch <= :last"
ADD_EVENT = insert("events", (), ("tenant_id", "at", "content"))
CUT_EVENTS = """
DELETE FROM events WHERE tenant_id = :id AND id NOT IN
(SELECT id FROM events WHERE tenant_id = :id ORDER BY id DESC LIMIT :most)
"""
DELETE_KEYS = "DELETE FROM idempotency_keys WHERE collection = :collection AND tenant = :name"
CLICKS = ("tenant_id", "day", "source", "adapted")
ADD_CLICKS = insert("clicks", CLICKS, ("times",), "times = clicks.times + excluded.times")
PUT_REFERENCE = """
INSERT INTO collections (name, version, ordinary) VALUES (:name, 1, :ordinary)
ON CONFLICT (name) DO UPDATE SET version = collections.version + 1, ordinary = excluded.ordinary
RETURNING version
"""
