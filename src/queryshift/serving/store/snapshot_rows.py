"""Named snapshots of tenants, and states that were kept aside since they no longer fit."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import text

from ..json_values import iso
from .database import Database
from .stored import Gone, StoredState, state_of
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
        with self._database.reading() as connection:
            rows = connection.execute(text(LIST), {"id": tenant})
            return [dict(row._mapping) for row in rows]

    def keep(self, tenant: int, about: dict[str, Any], state: StoredState, most: int) -> bool:
        """Keep a state under a name; False where there are as many others as may be."""
        with self._database.writing() as connection:
            there = text("SELECT id FROM tenants WHERE id = :id" + self._locking)
            if connection.execute(there, {"id": tenant}).first() is None:
                raise Gone("the tenant was deleted.")
            others = connection.scalar(text(OTHERS), {"id": tenant, "name": about["name"]})
            if int(others or 0) >= most:
                return False
            connection.execute(text(PUT), {"id": tenant, **about, **vars(state)})
            return True

    def keep_aside(
        self, tenant: int, version: int, state: StoredState, batches: int, why: str
    ) -> dict[str, Any] | None:
        """Keep a state that no longer fits as a snapshot; the event that says why.

        None where another process has changed the tenant since: nothing is done.
        """
        now = time.time()
        name = f"{ASIDE}{state.encoder[:8]}-{state.gallery[:8]}"
        about = {"name": name, "time": iso(now), "batches": batches}
        event = {"batch": batches + 1, "time": iso(now), "event": "kept_aside", "detail": why}
        with self._database.writing() as connection:
            there = text("SELECT version FROM tenants WHERE id = :id" + self._locking)
            if connection.scalar(there, {"id": tenant}) != version:
                return None
            connection.execute(text(PUT), {"id": tenant, **about, **vars(state)})
            connection.execute(text("DELETE FROM states WHERE tenant_id = :id"), {"id": tenant})
            add_events(connection, tenant, [event])
            return event

    def find(self, tenant: int, name: str) -> StoredState | None:
        """The state of a snapshot; None where there is none of this name."""
        statement = text("SELECT * FROM snapshots WHERE tenant_id = :id AND name = :name")
        with self._database.reading() as connection:
            row = connection.execute(statement, {"id": tenant, "name": name}).first()
            return None if row is None else state_of(row)

    def delete(self, tenant: int, name: str) -> bool:
        """Delete a snapshot; whether there was one."""
        statement = text("DELETE FROM snapshots WHERE tenant_id = :id AND name = :name")
        with self._database.writing() as connection:
            return connection.execute(statement, {"id": tenant, "name": name}).rowcount > 0

    @property
    def _locking(self) -> str:
        """What makes those who come at once wait for each other; SQLite has one writer anyway."""
        return " FOR UPDATE" if self._database.shared else ""


LIST = "SELECT name, time, batches FROM snapshots WHERE tenant_id = :id ORDER BY time, name"
OTHERS = "SELECT count(*) FROM snapshots WHERE tenant_id = :id AND name <> :name"
PUT = """
INSERT INTO snapshots (tenant_id, name, time, batches, encoder, gallery, content)
VALUES (:id, :name, :time, :batches, :encoder, :gallery, :content)
ON CONFLICT (tenant_id, name) DO UPDATE SET time = excluded.time, batches = excluded.batches,
encoder = excluded.encoder, gallery = excluded.gallery, content = excluded.content
"""
