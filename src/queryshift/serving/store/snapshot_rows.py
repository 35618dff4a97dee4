"""Named snapshots of tenants, and states that were kept aside since they no longer fit."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import text

from ..json_values import iso
from .database import Database, insert
from .stored_tenant import STATE, Gone, StoredState, state_of
from .tenant_rows import add_events

ASIDE = "aside-"  # how names of states begin that were kept aside


class SnapshotRows:
    """The stored snapshots of all tenants; called from threads.

    Args:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def listed(self, tenant: int) -> list[dict[str, Any]]:
        """A tenant's snapshots, oldest first."""
        return [dict(row._mapping) for row in self._database.rows(LIST, tenant_id=tenant)]

    def find(self, tenant: int, name: str) -> StoredState | None:
        """The state of a snapshot; None where there is none of this name."""
        statement = f"SELECT * FROM snapshots WHERE {NAMED}"
        found = self._database.rows(statement, tenant_id=tenant, name=name)
        return next(map(state_of, found), None)

    def keep(self, tenant: int, about: dict[str, Any], state: StoredState, most: int) -> bool:
        """Keep a state under a name; False where there are as many others as may be."""
        values = {"tenant_id": tenant, **about, **vars(state)}
        with self._database.writing() as connection:
            if connection.execute(text(VERSION + self._database.lock_row), values).first() is None:
                raise Gone("the tenant was deleted.")
            if connection.scalars(text(OTHERS), values).one() >= most:
                return False
            connection.execute(PUT, values)
            return True

    def keep_aside(
        self, tenant: int, version: int, state: StoredState, batches: int, why: str
    ) -> dict[str, Any] | None:
        """Keep a state that no longer fits as a snapshot; the event that says why.

        None where another process has changed the tenant since: nothing is done.
        """
        now = iso(time.time())
        name = f"{ASIDE}{state.encoder[:8]}-{state.gallery[:8]}"
        values = {"tenant_id": tenant, "name": name, "time": now, "batches": batches, **vars(state)}
        event = {"batch": batches + 1, "time": now, "event": "kept_aside", "detail": why}
        with self._database.writing() as connection:
            if connection.scalar(text(VERSION + self._database.lock_row), values) != version:
                return None
            connection.execute(PUT, values)
            connection.execute(text("DELETE FROM states WHERE tenant_id = :tenant_id"), values)
            add_events(connection, tenant, [event])
            return event

    def delete(self, tenant: int, name: str) -> bool:
        """Delete a snapshot; whether there was one."""
        values = {"tenant_id": tenant, "name": name}
        with self._database.writing(forgets=True) as connection:
            deleted = connection.execute(text(f"DELETE FROM snapshots WHERE {NAMED}"), values)
        return deleted.rowcount > 0


NAMED = "tenant_id = :tenant_id AND name = :name"
VERSION = "SELECT version FROM tenants WHERE id = :tenant_id"
LIST = "SELECT name, time, batches FROM snapshots WHERE tenant_id = :tenant_id ORDER BY time, name"
OTHERS = "SELECT count(*) FROM snapshots WHERE tenant_id = :tenant_id AND name <> :name"
PUT = insert("snapshots", ("tenant_id", "name"), ("time", "batches", *STATE))
