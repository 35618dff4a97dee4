"""A connection to PostgreSQL, and the description and statements of a pgvector table."""

from __future__ import annotations

import json
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
from ..engine import check_version
from ..engine_writer import Described
from ..model_origin import ModelOrigin

OPTIONS = {"table": str, "vector": str, "id": str, "ef": int, "probes": int}
REFUSALS = ("authentication", "password", "role", "does not exist", "no pg_hba.conf entry")
OPERATORS = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
LARGE = 1_000_000  # rows above which a sample is drawn from a part of them
WHOLE = ("smallint", "integer", "bigint")
TEXTS = ("text", "character varying")
KINDS = {True: "bigint", False: "text"}  # of ids that are whole numbers, or not

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


class Connection:
    """One connection for any number of threads; it reconnects, and never prints the password.

    Args:
        string: A connection string of libpq.
        settings: Settings of PostgreSQL for this connection.
        timeout: Seconds that connecting or a statement may take.
    """

    def __init__(self, string: str, settings: Mapping[str, Any], timeout: float) -> None:
        self._psycopg = need("psycopg", "postgres", "a gallery in PostgreSQL")
        self._sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
        self._string, self._timeout = string, timeout
        self._settings = {"statement_timeout": int(timeout * 1000), **settings}
        self._lock = Lock()
        self._open: Any = None  # psycopg's connection

    def execute(
        self, statement: str, arguments: Sequence[Any] = (), indexed: bool = True, **words: Any
    ) -> list[tuple[Any, ...]]:
        """Fill in the `{words}` of a statement, run it and return all rows.

        With `indexed=False` it reads whole tables, without a time limit.
        """
        plain = {n: self._sql.SQL(w) if isinstance(w, str) else w for n, w in words.items()}
        filled = self._sql.SQL(statement).format(**plain)
        with self._cursor() as cursor, self._scanning(cursor, indexed):
            cursor.execute(filled, arguments)
            return list(cursor.fetchall()) if cursor.description else []

    def quoted(self, table: str, vector: str, id: str) -> dict[str, Any]:
        """Return the quoted names of a table and its columns, as words of statements."""
        parts = {"table": table.split("."), "vector": [vector], "id": [id]}
        return {word: self._sql.Identifier(*names) for word, names in parts.items()}

    def change(self, name: str, setting: Any) -> None:
        """Change a setting; the next statement reconnects."""
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
        """Make the statements of the block read whole tables, unless `indexed`."""
        if indexed:
            yield
            return
        with cursor.connection.transaction():
            cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute("SET LOCAL statement_timeout = 0")
            yield

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Yield a cursor, to one thread at a time; raise the library's errors."""
        with self._lock:
            try:
                with self._connected().cursor(binary=True) as cursor:
                    yield cursor
            except self._psycopg.errors.QueryCanceled as error:
                raise EngineLost(
                    f"PostgreSQL stopped a statement after {self._timeout:g} seconds "
                    f"({self._text(error)}): give the gallery a longer timeout, or find out what "
                    "blocks the table."
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


@dataclass(frozen=True, kw_only=True)
class Table(Described):
    """The description of a table."""

    words: dict[str, Any]  # filled into statements about it
    index: str  # hnsw, ivfflat, or nothing


def describe(connection: Connection, table: str, vector: str, id: str) -> Table:
    """Look up a table; raise an error that says what to do."""
    execute, words = connection.execute, connection.quoted(table, vector, id)
    _check_extension(execute)
    quoted = words["table"].as_string()
    columns = {row[0]: row[1:] for row in execute(COLUMNS, (quoted,))}
    _check_columns(columns, table, vector, id)
    kind, modifier, relation, rows = columns[vector]
    index, operators = next(iter(execute(INDEXES, (quoted, vector))), ("", "vector_cosine_ops"))
    metric, whole_ids = operators.split("_")[1], columns[id][0] in WHOLE
    if not whole_ids and columns[id][0] not in TEXTS:
        words["id"] = f"{words['id'].as_string()}::text"
    stored = relation in ("r", "m")  # not a view or a partitioned table
    words |= {
        "type": kind,
        "operator": OPERATORS.get(metric, ""),
        "kind": KINDS[whole_ids],
        "order": "ctid" if stored else words["id"],
        "part": "TABLESAMPLE BERNOULLI (5)" if stored and rows > LARGE else "",
        "written": "sum(xmin::text::bigint)" if stored else "0",
    }
    dimension = modifier if modifier > 0 else _first_dimension(execute, words, table)
    origin = ModelOrigin.from_comment(execute(COMMENT, (quoted,))[0][0])
    return Table(
        words=words,
        dimension=dimension,
        metric=metric,
        index=index,
        whole_ids=whole_ids,
        origin=origin,
    )


def _check_extension(execute: Any) -> None:
    """Refuse a server whose pgvector is missing, or too old to find enough rows."""
    versions = execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if not versions:
        raise BadInput("this database has no pgvector: CREATE EXTENSION vector.")
    advice = "install it, then ALTER EXTENSION vector UPDATE"  # older ones stop scanning too early
    check_version("pgvector", versions[0][0], (0, 8), advice)


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


def _first_dimension(execute: Any, words: dict[str, Any], table: str) -> int:
    statement = "SELECT vector_dims({vector}) FROM {table} WHERE {vector} IS NOT NULL LIMIT 1"
    rows = execute(statement, **words)
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
    """Convert vectors to pgvector's text form, exact to the last bit."""
    return [json.dumps(vector) for vector in vectors.astype(np.float64).tolist()]
