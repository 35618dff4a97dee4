"""What is deleted by its age: answers under keys always, all else as the operator says."""

from __future__ import annotations

import time

from sqlalchemy import text

from .database import Database
from .tenant_rows import DAY

KEY_SECONDS = 600.0  # that an answer under an idempotency key is kept


def expire(database: Database, days: float | None) -> int:
    """Delete what is too old; how many tenants went.

    Args:
        database: the store.
        days: after which history, events and clicks go, and tenants that nobody asked; None: never.
    """
    now = time.time()
    with database.writing(forgets=True) as connection:
        old = {"limit": now - KEY_SECONDS}
        connection.execute(text("DELETE FROM idempotency_keys WHERE at <= :limit"), old)
        if days is None:
            return 0
        old = {"limit": now - days * DAY, "day": int(now / DAY - days)}
        for table in ("history", "events"):
            connection.execute(text(f"DELETE FROM {table} WHERE at <= :limit"), old)
        connection.execute(text("DELETE FROM clicks WHERE day < :day"), old)
        unused = text("DELETE FROM tenants WHERE last_seen <= :limit")
        return connection.execute(unused, old).rowcount
