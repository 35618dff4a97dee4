"""PostgreSQL with pgvector: your table, searched where it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.support.optional import need

from ..engine import EngineGallery
from ..engine_writer import Layout, Writer
from ..hits import Id
from ..model_origin import ModelOrigin
from ..searchable import SearchEffort
from ..seen_candidates import Found
from .postgres_table import COMMENT, KINDS, Connection, Table, as_texts, describe, read_address

SLOW_WITHOUT_INDEX = 10_000  # rows
LARGEST_EF, LARGEST_PROBES = 1_000, 32_768
SETTINGS = {"ef": "hnsw.ef_search", "probes": "ivfflat.probes"}
WRITING = 3600.0  # seconds that a statement may take: an index of many rows is slow
INDEXES = {"exact": "", "hnsw": "USING hnsw ({vector} vector_cosine_ops)"}
CREATE = "CREATE TABLE {table} ({id} {kind} PRIMARY KEY, {vector} vector({size}))"
UPSERT = """
    INSERT INTO {table} ({id}, {vector})
    SELECT * FROM unnest(%s::{kind}[], %s::text[]::vector[])
    ON CONFLICT ({id}) DO UPDATE SET {vector} = EXCLUDED.{vector}
"""

SEARCH = """
    SELECT query.place, hit.id, hit.vector
    FROM unnest(%s::text[]::{type}[]) WITH ORDINALITY AS query(vector, place)
    CROSS JOIN LATERAL (
        SELECT {id} AS id, {vector}::vector AS vector, {vector} {operator} query.vector AS distance
        FROM {table} WHERE {vector} IS NOT NULL
        ORDER BY {vector} {operator} query.vector LIMIT %s
    ) AS hit
    ORDER BY query.place, hit.distance
"""
SAMPLE = """
    SELECT vector FROM (
        SELECT {order} AS place, {vector}::vector AS vector FROM {table} {part}
        WHERE {vector} IS NOT NULL
        ORDER BY hashtextextended({id}::text, %s) LIMIT %s
    ) AS drawn ORDER BY place
"""
COUNT = "SELECT count(*) FROM {table} WHERE {vector} IS NOT NULL"
VERSION = "SELECT count(*), {written} FROM {table} WHERE {vector} IS NOT NULL"
KNOWN = "SELECT {id} FROM {table} WHERE {id} = ANY(%s::{kind}[])"


class Postgres(EngineGallery):
    """Candidates in a table with a pgvector column, used as it is.

    Args:
        connection: A connection string of libpq: "postgresql://user@host/db", with TLS settings
            such as "?sslmode=verify-full". The password may be in it, in PGPASSWORD or in
            ~/.pgpass; it is never printed.
        table: The table or view, "items" or "schema.items".
        vector: The column of the vectors, of type vector or halfvec.
        id: The column of the ids; values other than whole numbers become text.
        ef: `hnsw.ef_search`; at least 256 for shifted queries, at most 1,000.
        probes: `ivfflat.probes`.
        timeout: Seconds that connecting or a statement may take.

    Examples:
        >>> Postgres("postgresql://reader@db/shop", "items")  # doctest: +SKIP
        Postgres(table="items", vector="embedding", id="id")
    """

    _connection: Connection

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
            SETTINGS["ef"]: ef,
            "hnsw.iterative_scan": "strict_order",  # else LIMIT 100 finds `ef` rows at most
            SETTINGS["probes"]: probes,
            "ivfflat.iterative_scan": "relaxed_order",
        }
        self._connection = Connection(connection, settings, timeout)
        with self._closed_on_error():
            self._table = described = describe(self._connection, table, vector, id)
            super().__init__(described.dimension, timeout=timeout)
            self._name = f'table="{table}", vector="{vector}", id="{id}"'
            self.origin, self.exact = described.origin, not described.index
            if described.index == "hnsw":
                self.search_effort = SearchEffort("ef", ef, LARGEST_EF)
            elif described.index == "ivfflat":
                self.search_effort = SearchEffort("probes", probes, LARGEST_PROBES)
            self._check_stored(table, described.metric)
            slow = self.exact and self.count() > SLOW_WITHOUT_INDEX
        if slow:
            warnings.warn(
                f'table "{table}" has no index on "{vector}", so that every search reads all of '
                f"its rows: CREATE INDEX ON {table} USING hnsw ({vector} vector_cosine_ops).",
                stacklevel=2,
            )

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` rows of each query, in one statement."""
        if self.search_effort is not None:
            self._connection.change(SETTINGS[self.search_effort.name], self.search_effort.value)
        return self._found(queries, count)

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best `count` rows of each query by reading all of them."""
        return self._found(queries, count, indexed=False)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw `count` vectors by a hash of their ids; the same seed gives the same ones."""
        rows = self._execute(SAMPLE, seed, count)
        return self._read(vector for (vector,) in rows)

    def count(self) -> int:
        """Return the number of rows with a vector."""
        return int(self._execute(COUNT)[0][0])

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Return the ids that are in the table."""
        return {one for (one,) in self._execute(KNOWN, self._table.of_kind(ids))}

    @property
    def version(self) -> str:
        """The number of rows, and the sum of their transaction numbers (0 for a view).

        A later transaction has a larger number, so updates in place change the version too.
        """
        rows, written = self._execute(VERSION)[0]
        return f"{rows} rows, {written or 0}"

    @property
    def place(self) -> str:
        """Server, database, table and column."""
        return f"{self._connection.place}?{self._name}"

    def _execute(self, statement: str, *values: Any, indexed: bool = True) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values, indexed, **self._table.words)

    def _found(self, queries: NDArray[np.float32], count: int, indexed: bool = True) -> list[Found]:
        """Search, and group the rows (number of the query from 1, id, vector) by query."""
        hits: list[list[tuple[Id, bytes]]] = [[] for _ in queries]
        for place, one, vector in self._execute(SEARCH, as_texts(queries), count, indexed=indexed):
            hits[place - 1].append((one, vector))
        return [
            Found([one for one, _ in hit], self._read(vector for _, vector in hit)) for hit in hits
        ]

    def _read(self, stored: Iterable[bytes]) -> NDArray[np.float32]:
        """Read vectors (n, D) from pgvector's format: two 16-bit words, then big-endian floats."""
        return self._array([np.frombuffer(vector, ">f4", offset=4) for vector in stored])


class PostgresWriter(Writer):
    """Writes into the table at an address, each row by its id.

    Args:
        address: As `Gallery.open` takes it.
    """

    _connection: Connection

    def __init__(self, address: str) -> None:
        string, options = read_address(address)
        super().__init__(options["table"], Connection(string, {}, timeout=WRITING))
        self._vector, self._id = options.get("vector", "embedding"), options.get("id", "id")
        self._words = self._connection.quoted(self._name, self._vector, self._id)
        self._quoted = self._words["table"].as_string()

    def exists(self) -> bool:
        """Create the extension pgvector if needed, and return whether the table exists."""
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        found = self._connection.execute("SELECT to_regclass(%s)::text", (self._quoted,))
        return found[0][0] is not None

    def make(self, layout: Layout) -> None:
        """Create the table with a primary key."""
        self._run(CREATE, kind=KINDS[layout.whole_ids], size=str(layout.dimension))

    def described(self) -> Table:
        """Describe the existing table."""
        return describe(self._connection, self._name, self._vector, self._id)

    def keep_origin(self, origin: ModelOrigin) -> None:
        """Store the model in the last line of the table's comment."""
        comment = self._connection.execute(COMMENT, (self._quoted,))[0][0]
        literal = need("psycopg.sql", "postgres", "a gallery in PostgreSQL").Literal
        told = literal(origin.in_comment(comment or ""))
        self._run("COMMENT ON TABLE {table} IS {told}", told=told)

    def upsert(self, ids: Sequence[Id], vectors: NDArray[np.float32]) -> None:
        """Insert rows, or replace the vectors of existing ids, in one statement."""
        kind = KINDS[all(isinstance(one, int) for one in ids)]
        self._run(UPSERT, list(ids), as_texts(vectors), kind=kind)

    def count(self) -> int:
        """Return the number of rows with a vector."""
        return int(self._run(COUNT)[0][0])

    def finish(self, layout: Layout) -> None:
        """Create the index, if one is wanted and does not exist."""
        wanted = INDEXES.get(layout.index, layout.index)
        if wanted and not self.described().index:
            self._run(f"CREATE INDEX ON {{table}} {wanted}")

    def _run(self, statement: str, *values: Any, **words: Any) -> list[tuple[Any, ...]]:
        """Run a statement about the table; `words` are filled in, `values` are parameters."""
        return self._connection.execute(statement, values, **self._words, **words)


def open(address: str) -> Postgres:
    """Open the table at "postgresql://user@host/db?table=items&vector=embedding&id=id"."""
    string, options = read_address(address)
    return Postgres(string, **options)
