"""PostgreSQL with pgvector: a table of the user's, searched where it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, Error

from ..engine import EngineGallery, Found
from ..engine_vectors import checked_engine_vectors
from ..engine_writer import Layout
from ..hits import Id
from ..search_effort import SearchEffort
from ..stored_vectors import LOOKED_AT, check_new, known_metric
from .postgres_connection import Connection, as_texts, split_address
from .postgres_table import describe
from .postgres_writer import PostgresWriter

SLOW_WITHOUT_INDEX = 10_000  # rows
LARGEST = {"ef": 1_000, "probes": 32_768}
SETTINGS = {"ef": "hnsw.ef_search", "probes": "ivfflat.probes"}


class Postgres(EngineGallery):
    """Candidates in a table with a pgvector column, used as it is.

    Args:
        connection: A connection string of libpq: "postgresql://user@host/db", with TLS settings
            such as "?sslmode=verify-full". The password may be in it, in PGPASSWORD or in
            ~/.pgpass; it is never printed.
        table: The table or view, "items" or "schema.items".
        vector: The column of the vectors, of type vector or halfvec.
        id: The column of the ids: whole numbers stay, everything else becomes text.
        ef: `hnsw.ef_search`; at least 256 for shifted queries, at most 1,000.
        probes: `ivfflat.probes`.
        timeout: Seconds that connecting or a statement may take.

    Examples:
        >>> Postgres("postgresql://reader@db/shop", "items")  # doctest: +SKIP
        Postgres(table="items", vector="embedding", id="id")
    """

    def __init__(
        self,
        connection: str,
        table: str,
        *,
        vector: str = "embedding",
        id: str = "id",
        ef: int = 256,
        probes: int = 64,
        timeout: float = 10.0,
    ) -> None:
        settings = {
            "hnsw.ef_search": ef,
            "hnsw.iterative_scan": "strict_order",  # else LIMIT 100 finds `ef` rows at most
            "ivfflat.probes": probes,
            "ivfflat.iterative_scan": "relaxed_order",
        }
        self._connection = Connection(connection, settings, timeout)
        self._name = f'table="{table}", vector="{vector}", id="{id}"'
        try:
            self._table = describe(self._connection.execute, table, vector, id)
            super().__init__(self._table.dimension, timeout=timeout)
            self.origin = self._table.origin
            self.metric = known_metric(table, self._table.metric)
            self.exact = not self._table.index
            self.breadth = _breadth(self._table.index, ef, probes)
            checked_engine_vectors(self.sample(LOOKED_AT, 0), self.dimension, self.metric)
            slow = not self._table.index and self.count() > SLOW_WITHOUT_INDEX
        except Error:
            self._connection.close()
            raise
        if slow:
            warnings.warn(
                f'table "{table}" has no index on "{vector}", so that every search reads all of '
                f"its rows: CREATE INDEX ON {table} USING hnsw ({vector} vector_cosine_ops).",
                stacklevel=2,
            )

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` rows of each query, all in one statement."""
        if self.breadth is not None:
            self._connection.change(SETTINGS[self.breadth.name], self.breadth.value)
        arguments = (as_texts(queries), count)
        rows = self._connection.execute(self._table.search(), arguments)
        return self._found(rows, len(queries))

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The best `count` rows of each query by reading all of them."""
        arguments = (as_texts(queries), count)
        rows = self._connection.execute_without_index(self._table.search(), arguments)
        return self._found(rows, len(queries))

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """`count` vectors drawn by a hash of their ids: without bias, and the same ones again."""
        rows = self._connection.execute(self._table.sample(), (seed, count))
        return self._read(vector for (vector,) in rows)

    def count(self) -> int:
        """The number of rows that have a vector."""
        return int(self._connection.execute(self._table.count())[0][0])

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Those of the ids that the table has."""
        kind = int if self._table.whole_ids else str
        asked = [one for one in ids if isinstance(one, kind)]
        return {one for (one,) in self._connection.execute(self._table.known(), (asked,))}

    @property
    def version(self) -> str:
        """The number of rows and when they were written: updates in place are noticed too."""
        rows, written = self._connection.execute(self._table.version())[0]
        return f"{rows} rows, {written or 0}"

    @property
    def place(self) -> str:
        """Server, database, table and column."""
        return f"{self._connection.place}?{self._name}"

    def close(self) -> None:
        """End the connection; the next search makes it again."""
        self._connection.close()

    def __repr__(self) -> str:
        return f"Postgres({self._name})"

    def _found(self, rows: list[tuple[Any, ...]], queries: int) -> list[Found]:
        """What a search gives: (place of the query from 1, id, vector) per row."""
        hits: list[list[tuple[Id, bytes]]] = [[] for _ in range(queries)]
        for place, one, vector in rows:
            hits[place - 1].append((one, vector))
        return [
            Found([one for one, _ in hit], self._read(vector for _, vector in hit)) for hit in hits
        ]

    def _read(self, stored: Iterable[bytes]) -> NDArray[np.float32]:
        """Vectors (n, D) from what pgvector sends: two 16-bit words, then big-endian floats."""
        rows = [np.frombuffer(vector, ">f4", offset=4) for vector in stored]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)


def open(address: str) -> Postgres:
    """The table at "postgresql://user@host/db?table=items&vector=embedding&id=id"."""
    string, options = split_address(address)
    return Postgres(string, **options)


def create(
    address: str, ids: Sequence[Id], vectors: NDArray[np.float32], index: str = ""
) -> Postgres:
    """Write a new table and open it.

    Args:
        address: As `open` takes it; a table that is there already is refused.
        ids: An id for each candidate, all whole numbers or all text.
        vectors: Vectors (N, D).
        index: What follows CREATE INDEX ON the table: "USING hnsw (embedding vector_cosine_ops)".
    """
    array, writer = check_new(ids, vectors), PostgresWriter(address)
    whole = all(isinstance(one, int) for one in ids)
    layout = Layout(array.shape[1], whole, index or "exact")
    with closing(writer):
        if writer.prepare(layout):
            raise BadInput("this table is there already: drop it, or take another name.")
        writer.upsert(ids, array)
        writer.finish(layout)
    return open(address)


def _breadth(index: str, ef: int, probes: int) -> SearchEffort | None:
    if index == "hnsw":
        return SearchEffort("ef", ef, LARGEST["ef"])
    return SearchEffort("probes", probes, LARGEST["probes"]) if index == "ivfflat" else None
