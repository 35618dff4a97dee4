"""What is stored of a collection's tenants: read whole, written in one transaction or not at all.

A row has a version. What was learnt is written `WHERE version = :seen`: who learnt on a version
that another process has replaced is refused with `Stale`. Counts are added, and lose nothing. The
row names its latest changes, so that one that is sent again, since nobody acknowledged it, is made
once, also where other processes have changed the tenant in between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from sqlalchemy import Connection, Text, bindparam, text

from queryshift.sessions.feedback import ClickScores, Ranks

from ..errors import Damaged
from ..json_values import iso
from ..settings import Mode
from .database import Database
from .record import COUNTS, EVENTS, Record
from .stored import Change, Gone, Stale, StoredTenant, state_of, stored_state

DAY = 86_400.0  # seconds
TOKENS = 2000  # characters of the names of the latest changes: about 70 of them
AT_ONCE = 1000  # numbers of tenants in one statement
OWN = ("states", "snapshots", "history", "events", "clicks")  # tables of a tenant's rows


class TenantRows:
    """The stored tenants of one collection; called from threads.

    Args:
        database: where they are.
        collection: the collection's name.
    """

    def __init__(self, database: Database, collection: str) -> None:
        self._database, self._collection = database, collection

    @property
    def shared(self) -> bool:
        """Whether other processes may change them."""
        return self._database.shared

    def find(self, name: str) -> StoredTenant | None:
        """A tenant by its name; None where there is none."""
        with self._database.reading() as connection:
            return self._read(connection, "collection = :collection AND name = :name", name=name)

    def read(self, id: int) -> StoredTenant | None:
        """A tenant by its number; None where it was deleted."""
        with self._database.reading() as connection:
            return self._read(connection, "id = :id", id=id)

    def counted(self, id: int) -> StoredTenant | None:
        """The same without its state, which may be large."""
        with self._database.reading() as connection:
            return self._read(connection, "id = :id", state=False, id=id)

    def make(self, name: str, mode: Mode, most: int) -> StoredTenant | None:
        """The tenant, made where there is none; None where there are as many as may be."""
        values = {"collection": self._collection, "name": name, "mode": mode, "now": time.time()}
        with self._database.writing() as connection:
            made = connection.execute(text(MAKE), {**values, "most": most}).first()
            where = "collection = :collection AND name = :name"
            found = self._read(connection, where, name=name)
            return None if found is None else replace(found, new=made is not None)

    def commit(self, change: Change) -> int:
        """Write a change, whole or not at all; the version that the tenant has then.

        Raises `Stale` where another process was faster, `Gone` where the tenant was deleted.
        """
        content = None if change.state is None else stored_state(change.state)
        with self._database.writing() as connection:
            if not self._update(connection, change):
                return change.seen + change.checked  # it was made before, by this very change
            if content is not None:
                connection.execute(text(PUT_STATE), {"id": change.id, **vars(content)})
            add_rows(connection, change.id, change.rows, change.keep_rows)
            add_events(connection, change.id, change.events)
            add_clicks(connection, change.id, change.clicks)
            if change.told:
                self._database.notify(connection)
        return change.seen + change.checked

    def _update(self, connection: Connection, change: Change) -> bool:
        """Change the tenant's own row; whether this change was not made before."""
        values: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), **change.counts}
        values["last_seen"] = change.last_seen
        values |= {"id": change.id, "token": change.token, "mode": change.mode, "seen": change.seen}
        values["step"] = int(change.checked)
        statement = f"{UPDATE} AND version = :seen" if change.checked else UPDATE
        if connection.execute(text(statement), values).rowcount == 1:
            return True
        now = connection.execute(
            text("SELECT version, saved_by FROM tenants WHERE id = :id"), {"id": change.id}
        ).first()
        if now is None:
            raise Gone("the tenant was deleted.")
        if change.token not in now.saved_by:
            raise Stale(f"version {change.seen} was changed, {now.version} is stored.")
        return False

    def versions(self, ids: Sequence[int]) -> dict[int, int]:
        """The versions of these tenants, without those that were deleted."""
        statement = text("SELECT id, version FROM tenants WHERE id IN :ids")
        statement = statement.bindparams(bindparam("ids", expanding=True))
        found: dict[int, int] = {}
        with self._database.reading() as connection:
            for start in range(0, len(ids), AT_ONCE):
                some = {"ids": ids[start : start + AT_ONCE]}
                found |= {row.id: row.version for row in connection.execute(statement, some)}
        return found

    def listed(self, after: str, limit: int, among: Sequence[str] | None) -> list[dict[str, Any]]:
        """Tenants by name, those behind `after`; only those `among` these names, if given."""
        which = "" if among is None else "AND name IN :among"
        statement = text(LIST.format(which=which))
        values: dict[str, Any] = {"collection": self._collection, "after": after, "limit": limit}
        if among is not None:
            statement = statement.bindparams(bindparam("among", expanding=True, type_=Text))
            values["among"] = list(among)
        with self._database.reading() as connection:
            rows = connection.execute(statement, values)
            return [dict(row._mapping) | {"last_seen": iso(row.last_seen)} for row in rows]

    def count(self) -> int:
        """How many tenants there are."""
        statement = text("SELECT count(*) FROM tenants WHERE collection = :collection")
        with self._database.reading() as connection:
            return int(connection.scalar(statement, {"collection": self._collection}) or 0)

    def history(self, id: int, since: int, limit: int) -> list[dict[str, Any]]:
        """Rows of a tenant's history after number `since`; a damaged one is passed over."""
        statement = text(
            "SELECT content FROM history WHERE tenant_id = :id AND batch > :since "
            "ORDER BY batch LIMIT :limit"
        )
        with self._database.reading() as connection:
            values = {"id": id, "since": since, "limit": limit}
            return _parsed(connection.scalars(statement, values).all())

    def delete(self, name: str) -> bool:
        """Delete a tenant and all that is stored of it; whether there was one."""
        with self._database.writing() as connection:
            values = {"collection": self._collection, "name": name}
            found = connection.execute(
                text("SELECT id FROM tenants WHERE collection = :collection AND name = :name"),
                values,
            ).first()
            connection.execute(
                text(
                    "DELETE FROM idempotency_keys WHERE collection = :collection AND tenant = :name"
                ),
                values,
            )
            if found is not None:
                remove_tenant(connection, found.id)
                self._database.notify(connection)
        if not self._database.shared:  # what was deleted leaves the log of writes too
            with self._database.engine.connect() as plain:
                plain.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return found is not None

    def _read(
        self, connection: Connection, where: str, state: bool = True, **values: Any
    ) -> StoredTenant | None:
        values["collection"] = self._collection
        row = connection.execute(text(f"SELECT * FROM tenants WHERE {where}"), values).first()
        if row is None:
            return None
        if row.mode not in get_args(Mode) or not isinstance(row.version, int):
            raise Damaged(
                f'the stored row of tenant "{row.name}" is damaged (its mode is "{row.mode}"): '
                "restore it from a backup, or delete the tenant."
            )
        values = {"id": row.id}
        events = connection.scalars(text(EVENTS_OF), values).all()
        clicks = connection.execute(text(CLICKS_OF), values)
        last = connection.scalars(text(LAST_ROW), values).all()
        record = Record(
            row.name,
            row.mode,
            **{name: getattr(row, name) for name in (*COUNTS, "created", "last_seen")},
            events=_parsed(events),
            clicks=ClickScores({(one.source, one.adapted): int(one.times) for one in clicks}),
        )
        found = text("SELECT * FROM states WHERE tenant_id = :id")
        kept = connection.execute(found, values).first() if state else None
        return StoredTenant(
            row.id,
            row.version,
            record,
            None if kept is None else state_of(kept),
            next(iter(_parsed(last)), None),
            row.saved_by,
        )


def add_rows(connection: Connection, id: int, rows: Sequence[dict[str, Any]], keep: int) -> None:
    """Add rows of a history, of which the latest `keep` stay."""
    if not rows:
        return
    statement = text(ADD_ROW)
    now = time.time()
    values = [
        {"id": id, "batch": row["batch"], "at": now, "content": json.dumps(row)} for row in rows
    ]
    connection.execute(statement, values)
    connection.execute(
        text("DELETE FROM history WHERE tenant_id = :id AND batch <= :last"),
        {"id": id, "last": rows[-1]["batch"] - keep},
    )


def add_events(connection: Connection, id: int, events: Sequence[dict[str, Any]]) -> None:
    """Add events; the latest `EVENTS` stay."""
    if not events:
        return
    statement = text("INSERT INTO events (tenant_id, at, content) VALUES (:id, :at, :content)")
    now = time.time()
    connection.execute(
        statement, [{"id": id, "at": now, "content": json.dumps(one)} for one in events]
    )
    connection.execute(
        text(
            "DELETE FROM events WHERE tenant_id = :id AND id NOT IN "
            "(SELECT id FROM events WHERE tenant_id = :id ORDER BY id DESC LIMIT :most)"
        ),
        {"id": id, "most": EVENTS},
    )


def add_clicks(connection: Connection, id: int, clicks: Mapping[Ranks, int]) -> None:
    """Add clicks to those of the day."""
    day = int(time.time() // DAY)
    for (source, adapted), times in clicks.items():
        values = {"id": id, "day": day, "source": source, "adapted": adapted, "times": times}
        connection.execute(text(ADD_CLICKS), values)


def remove_tenant(connection: Connection, id: int) -> None:
    """Delete a tenant's rows in all tables."""
    for table in OWN:
        connection.execute(text(f"DELETE FROM {table} WHERE tenant_id = :id"), {"id": id})
    connection.execute(text("DELETE FROM tenants WHERE id = :id"), {"id": id})


def _parsed(contents: Sequence[str]) -> list[dict[str, Any]]:
    """JSON objects, without those that are damaged."""
    found = []
    for content in contents:
        try:
            row = json.loads(content)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append(row)
    return found


MAKE = """
INSERT INTO tenants (collection, name, mode, created, last_seen)
SELECT :collection, :name, :mode, CAST(:now AS DOUBLE PRECISION), CAST(:now AS DOUBLE PRECISION)
WHERE (SELECT count(*) FROM tenants WHERE collection = :collection) < :most
ON CONFLICT (collection, name) DO NOTHING RETURNING id
"""
UPDATE = f"""
UPDATE tenants SET version = version + :step, mode = COALESCE(:mode, mode),
saved_by = substr(CAST(:token AS TEXT) || ' ' || saved_by, 1, {TOKENS}),
{", ".join(f"{name} = {name} + :{name}" for name in COUNTS)},
last_seen = CASE WHEN last_seen > :last_seen THEN last_seen ELSE :last_seen END
WHERE id = :id AND saved_by NOT LIKE '%' || CAST(:token AS TEXT) || '%'
"""
PUT_STATE = """
INSERT INTO states (tenant_id, encoder, gallery, content)
VALUES (:id, :encoder, :gallery, :content)
ON CONFLICT (tenant_id) DO UPDATE SET encoder = excluded.encoder, gallery = excluded.gallery,
content = excluded.content
"""
LIST = """
SELECT name AS tenant, mode, queries, last_seen FROM tenants
WHERE collection = :collection AND name > :after {which} ORDER BY name LIMIT :limit
"""
EVENTS_OF = "SELECT content FROM events WHERE tenant_id = :id ORDER BY id"
CLICKS_OF = """
SELECT source, adapted, sum(times) AS times FROM clicks WHERE tenant_id = :id
GROUP BY source, adapted
"""
LAST_ROW = "SELECT content FROM history WHERE tenant_id = :id ORDER BY batch DESC LIMIT 1"
ADD_ROW = """
INSERT INTO history (tenant_id, batch, at, content) VALUES (:id, :batch, :at, :content)
"""
ADD_CLICKS = """
INSERT INTO clicks (tenant_id, day, source, adapted, times)
VALUES (:id, :day, :source, :adapted, :times)
ON CONFLICT (tenant_id, day, source, adapted) DO UPDATE SET times = clicks.times + excluded.times
"""
