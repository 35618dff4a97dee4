"""A connection to PostgreSQL, and the description and statements of a pgvector table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost, GalleryMismatch
from queryshift.support.optional import need

from ..addresses import address_options
from ..model_origin import ModelOrigin

OPTIONS = {"table": str, "vector": str, "id": str, "ef": int, "probes": int}
REFUSALS = ("authentication", "password", "role", "does not exist", "no pg_hba.conf entry")
OPERATORS = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
LARGE = 1_000_000  # rows above which a sample is drawn from a part of them
WHOLE = ("smallint", "integer", "bigint")
TEXTS = ("text", "character varying")

COLUMNS = """
    SELECT a.attname, a.atttypid::regtype::text, a.atttypmod, c.relkind::text, c.reltuples
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
INDEXES = """
    SELECT m.amname, o.opcname
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
    JOIN pg_opclass o ON o.oid = i.indclass[0]
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = to_regclass(%s) AND a.attname = %s AND m.amname IN ('hnsw', 'ivfflat')
        AND i.indisvalid AND i.indpred IS NULL
"""
COMMENT = "SELECT obj_description(to_regclass(%s), 'pg_class')"
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


class Connection:
    """One connection for any number of threads; it reconnects, and never prints the password.

    Args:
        string: A connection string of libpq.
        settings: Settings of PostgreSQL that hold while the connection lives.
        timeout: Seconds that connecting or a statement may take.
    """

    def __init__(self, string: str, settings: Mapping[str, Any], timeout: float) -> None:
        self._psycopg = need("psycopg", "postgres", "a gallery in PostgreSQL")
        self._string, self._timeout = string, timeout
        self._settings = {"statement_timeout": int(timeout * 1000), **settings}
        self._lock = Lock()
        self._open: Any = None  # psycopg's connection

    def execute(
        self, statement: Any, arguments: Sequence[Any] = (), indexed: bool = True
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; reconnect first if the connection was lost.

        With `indexed=False` it reads whole tables, however long that takes.
        """
        with self._cursor() as cursor, self._scanning(cursor, indexed):
            cursor.execute(statement, arguments)
            return list(cursor.fetchall()) if cursor.description else []

    def change(self, name: str, setting: Any) -> None:
        """Change a setting from the next statement on, which reconnects."""
        if self._settings.get(name) != setting:
            self._settings[name] = setting
            self.close()

    @property
    def place(self) -> str:
        """Server and database."""
        with self._cursor() as cursor:
            info = cursor.connection.info
            return f"postgresql://{info.host}:{info.port}/{info.dbname}"

    def close(self) -> None:
        """Close it; the next statement connects again."""
        with self._lock:
            self._drop()

    @contextmanager
    def _scanning(self, cursor: Any, indexed: bool) -> Iterator[None]:
        """Let the statements of the block read whole tables, unless they may use the index."""
        if indexed:
            yield
            return
        with cursor.connection.transaction():
            cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute("SET LOCAL statement_timeout = 0")
            yield

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Give a cursor while no other thread has one; raise the library's errors."""
        with self._lock:
            try:
                with self._connected().cursor(binary=True) as cursor:
                    yield cursor
            except self._psycopg.errors.QueryCanceled as error:
                raise EngineLost(
                    f"PostgreSQL ended a statement ({self._text(error)}), which may take "
                    f"{self._timeout:g} seconds here: give the gallery a longer timeout, or find "
                    "out what holds the table up."
                ) from None
            except self._psycopg.OperationalError as error:
                self._drop()
                raise self._lost(error) from None
            except self._psycopg.Error as error:
                raise BadInput(f"PostgreSQL refused: {self._text(error)}.") from None

    def _connected(self) -> Any:
        if self._open is None:
            self._open = self._psycopg.connect(
                self._string, autocommit=True, connect_timeout=max(2, round(self._timeout))
            )
            for name, setting in self._settings.items():
                self._open.execute("SELECT set_config(%s, %s, false)", (name, str(setting)))
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def _lost(self, error: Exception) -> Exception:
        text = self._text(error)
        if any(word in text for word in REFUSALS):
            return BadInput(
                f"PostgreSQL refused the connection ({text}): correct the user, the password or "
                "the database in the connection string, PGPASSWORD or ~/.pgpass."
            )
        return EngineLost(f"PostgreSQL does not answer ({text}): is the server running?")

    def _text(self, error: Exception) -> str:
        """The first line of an error, without the password."""
        line = str(error).strip().partition("\n")[0].rstrip(".")
        try:
            password = self._psycopg.conninfo.conninfo_to_dict(self._string).get("password")
        except self._psycopg.Error:  # it quotes the string that it cannot read
            return "the connection string cannot be read, expected postgresql://user@host/database"
        return line.replace(str(password), "***") if password else line


@dataclass(frozen=True)
class Table:
    """What is known of a table, and its statements; names are quoted, values are parameters."""

    names: dict[str, Any]  # table, vector, id: quoted
    type: str  # of the vectors' column: vector or halfvec
    dimension: int
    metric: str
    index: str  # hnsw, ivfflat, or nothing
    whole_ids: bool
    stored: bool  # a table or materialised view; not a view or a partitioned table
    large: bool
    origin: ModelOrigin | None  # from the table's comment

    def search(self) -> Any:
        """Hits of an array of queries: (place from 1, id, vector), nearest first."""
        return self._filled(SEARCH, type=self.type, operator=OPERATORS[self.metric])

    def sample(self) -> Any:
        """Vectors drawn by a hash of their ids, in the order of the rows; of many, from 5 %."""
        part = "TABLESAMPLE BERNOULLI (5)" if self.stored and self.large else ""
        return self._filled(SAMPLE, part=part, **({"order": "ctid"} if self.stored else {}))

    def count(self) -> Any:
        """The number of rows with a vector."""
        return self._filled("SELECT count(*) FROM {table} WHERE {vector} IS NOT NULL")

    def version(self) -> Any:
        """The number of rows with a vector, and the sum of the transactions that wrote them.

        A later transaction has a larger number, so that an update makes the sum larger; rows of a
        view have none.
        """
        written = "sum(xmin::text::bigint)" if self.stored else "0"
        return self._filled(
            "SELECT count(*), {written} FROM {table} WHERE {vector} IS NOT NULL", written=written
        )

    def known(self) -> Any:
        """The ids among an array of ids."""
        kind = "bigint" if self.whole_ids else "text"
        return self._filled("SELECT {id} FROM {table} WHERE {id} = ANY(%s::{kind}[])", kind=kind)

    def _filled(self, statement: str, **words: str) -> Any:
        sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
        plain = {name: sql.SQL(word) for name, word in words.items()}
        return sql.SQL(statement).format(**{"order": self.names["id"], **self.names, **plain})


def describe(connection: Connection, table: str, vector: str, id: str) -> Table:
    """Look a table up, or refuse it with what to do."""
    execute = connection.execute
    sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
    _check_version(execute)
    name = sql.Identifier(*table.split("."))
    quoted = name.as_string()
    columns = {row[0]: row[1:] for row in execute(COLUMNS, (quoted,))}
    _check_columns(columns, table, vector, id)
    kind, modifier, relation, rows = columns[vector]
    names = {"table": name, "vector": sql.Identifier(vector), "id": sql.Identifier(id)}
    index, operators = next(iter(execute(INDEXES, (quoted, vector))), ("", "vector_cosine_ops"))
    if columns[id][0] not in (*WHOLE, *TEXTS):
        names["id"] = sql.SQL("{}::text").format(names["id"])
    return Table(
        names=names,
        type=kind,
        dimension=modifier if modifier > 0 else _first_dimension(execute, names, table),
        metric=operators.split("_")[1],
        index=index,
        whole_ids=columns[id][0] in WHOLE,
        stored=relation in ("r", "m"),
        large=rows > LARGE,
        origin=ModelOrigin.from_comment(execute(COMMENT, (quoted,))[0][0]),
    )


def _check_version(execute: Any) -> None:
    """Refuse a server without a pgvector that scans on until enough rows are found."""
    versions = execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if not versions:
        raise BadInput("this database has no pgvector: CREATE EXTENSION vector.")
    version = versions[0][0]
    if [int(part) for part in re.findall(r"\d+", version)[:2]] < [0, 8]:
        raise BadInput(
            f"this database has pgvector {version}, expected 0.8 or later, which finds as many "
            "rows as asked for: install it, then ALTER EXTENSION vector UPDATE."
        )


def _check_columns(columns: dict[str, Any], table: str, vector: str, id: str) -> None:
    if not columns:
        raise BadInput(f'no table "{table}" in this database: correct "table" in the address.')
    for option, name in (("vector", vector), ("id", id)):
        if name not in columns:
            raise BadInput(
                f'table "{table}" has no column "{name}"; its columns: {", ".join(columns)}: '
                f'name the right one as "{option}".'
            )
    kind = columns[vector][0].rpartition(".")[2]
    if kind not in ("vector", "halfvec"):
        raise GalleryMismatch(
            f'column "{vector}" of table "{table}" has the type {kind}, expected vector or '
            "halfvec of pgvector: name another column."
        )


def _first_dimension(execute: Any, names: dict[str, Any], table: str) -> int:
    sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
    statement = "SELECT vector_dims({vector}) FROM {table} WHERE {vector} IS NOT NULL LIMIT 1"
    rows = execute(sql.SQL(statement).format(**names))
    if not rows:
        raise BadInput(f'table "{table}" has no vectors: fill it before a session uses it.')
    return int(rows[0][0])


def read_address(address: str) -> tuple[str, dict[str, Any]]:
    """Return the connection string of libpq, and the options of `Postgres`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise BadInput(
            "the address cannot be read, expected postgresql://user@host/database?table=items."
        ) from None
    words = parse_qsl(parts.query)
    options = address_options(urlencode([word for word in words if word[0] in OPTIONS]), OPTIONS)
    if "table" not in options:
        raise BadInput('the address names no table: add "?table=items" to it.')
    rest = urlencode([word for word in words if word[0] not in OPTIONS])
    return urlunsplit(parts._replace(query=rest)), options


def as_texts(vectors: NDArray[np.float32]) -> list[str]:
    """Vectors in pgvector's text form, exact to the last bit."""
    return [json.dumps(vector) for vector in vectors.astype(np.float64).tolist()]
