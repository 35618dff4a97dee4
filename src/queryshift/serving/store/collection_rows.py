"""What is stored of a collection itself: its sample of reference queries."""

from __future__ import annotations

from sqlalchemy import text

from .database import Database


def stored_reference(database: Database, collection: str) -> tuple[int, str] | None:
    """The sample that was put last, as JSON, with its version; None where none was."""
    statement = "SELECT version, ordinary FROM collections WHERE name = :name"
    return next((tuple(row) for row in database.rows(statement, name=collection)), None)


def store_reference(database: Database, collection: str, ordinary: str) -> int:
    """Put a sample in the place of the last one; its version."""
    with database.writing() as connection:
        version = connection.scalar(text(PUT), {"name": collection, "ordinary": ordinary})
        database.notify(connection)
        return int(version or 0)


PUT = """
INSERT INTO collections (name, version, ordinary) VALUES (:name, 1, :ordinary)
ON CONFLICT (name) DO UPDATE SET version = collections.version + 1, ordinary = excluded.ordinary
RETURNING version
"""
