"""Candidates written into a table of PostgreSQL, each by its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import GalleryMismatch
from queryshift.support.optional import need

from ..engine_writer import Layout, check_fits
from ..hits import Id
from .postgres_connection import Connection, as_texts, split_address
from .postgres_table import COMMENT, describe

WRITING = 3600.0  # seconds that a statement may take: an index of many rows is slow
INDEXES = {"exact": "", "hnsw": "USING hnsw ({vector} vector_cosine_ops)"}
CREATE = "CREATE TABLE {table} ({id} {kind} PRIMARY KEY, {vector} vector({size}))"
UPSERT = """
    INSERT INTO {table} ({id}, {vector})
    SELECT * FROM unnest(%s::{kind}[], %s::text[]::vector[])
    ON CONFLICT ({id}) DO UPDATE SET {vector} = EXCLUDED.{vector}
"""


class PostgresWriter:
    """Writes into the table at an address; it is made where it is not there.

    Args:
        address: As `Gallery.open` takes it.
    """

    def __init__(self, address: str) -> None:
        string, options = split_address(address)
        self._sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
        self._table = options["table"]
        self._vector, self._id = options.get("vector", "embedding"), options.get("id", "id")
        self._names = {
            "table": self._sql.Identifier(*self._table.split(".")),
            "vector": self._sql.Identifier(self._vector),
            "id": self._sql.Identifier(self._id),
        }
        self._connection = Connection(string, {}, timeout=WRITING)

    def prepare(self, layout: Layout) -> bool:
        """Make the table with a primary key, or see that the one there fits."""
        quoted = self._names["table"].as_string()
        self._connection.run("CREATE EXTENSION IF NOT EXISTS vector")
        there = self._connection.execute("SELECT to_regclass(%s)::text", (quoted,))[0][0]
        if there is None:
            self._run(CREATE, kind=_kind(layout.whole_ids), size=str(layout.dimension))
        comment = self._connection.execute(COMMENT, (quoted,))[0][0]
        if there is not None:
            self._check(layout)
        if layout.origin is not None:
            told = self._sql.Literal(layout.origin.in_comment(comment or ""))
            self._run("COMMENT ON TABLE {table} IS {told}", told=told)
        return there is not None

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert rows, or give those of the same id their new vector, in one statement."""
        kind = _kind(all(isinstance(one, int) for one in ids))
        self._run(UPSERT, (list(ids), as_texts(vectors)), kind=kind)

    def count(self) -> int:
        """The number of rows with a vector."""
        statement = self._filled("SELECT count(*) FROM {table} WHERE {vector} IS NOT NULL")
        return int(self._connection.execute(statement)[0][0])

    def finish(self, layout: Layout) -> None:
        """Make the index, where one is wanted and there is none."""
        wanted = INDEXES.get(layout.index, layout.index)
        if wanted and not self._described().index:
            self._run(f"CREATE INDEX ON {{table}} {wanted}")

    def close(self) -> None:
        """End the connection; the next statement makes it again."""
        self._connection.close()

    def _check(self, layout: Layout) -> None:
        table = self._described()
        check_fits(self._table, table.dimension, table.origin, layout)
        if table.whole_ids != layout.whole_ids:
            raise GalleryMismatch(
                f'the ids of table "{self._table}" are {_kind(table.whole_ids)}, got '
                f"{_kind(layout.whole_ids)}: take another table, or other ids."
            )

    def _described(self) -> Any:
        return describe(self._connection.execute, self._table, self._vector, self._id)

    def _run(self, statement: str, arguments: Sequence[Any] = (), **words: Any) -> None:
        self._connection.run(self._filled(statement, **words), arguments)

    def _filled(self, statement: str, **words: Any) -> Any:
        """A statement with names and words in it; values are parameters."""
        plain = {
            name: self._sql.SQL(word) if isinstance(word, str) else word
            for name, word in words.items()
        }
        return self._sql.SQL(statement).format(**self._names, **plain)


def _kind(whole_ids: bool) -> str:
    return "bigint" if whole_ids else "text"
