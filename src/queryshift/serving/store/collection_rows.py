"""What is stored of a collection itself: its sample of ordinary queries."""

from __future__ import annotations

from sqlalchemy import text

from .database import Database


class CollectionRows:
    """The stored samples of all collections; called from threads.

    Args:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def ordinary(self, collection: str) -> tuple[int, str] | None:
        """The sample that was put last, as JSON, with its version; None where none was."""
        statement = text("SELECT version, ordinary FROM collections WHERE name = :name")
        with self._database.reading() as connection:
            row = connection.execute(statement, {"name": collection}).first()
            return None if row is None else (row.version, row.ordinary)

    def put_ordinary(self, collection: str, ordinary: str) -> int:
        """Put a sample in the place of the last one; its version."""
        with self._database.writing() as connection:
            version = connection.scalar(text(PUT), {"name": collection, "ordinary": ordinary})
            self._database.notify(connection)
            return int(version or 0)


PUT = """
INSERT INTO collections (name, version, ordinary) VALUES (:name, 1, :ordinary)
ON CONFLICT (name) DO UPDATE SET version = collections.version + 1, ordinary = excluded.ordinary
RETURNING version
"""
