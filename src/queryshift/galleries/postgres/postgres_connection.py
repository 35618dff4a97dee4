"""A connection to PostgreSQL that is made again when it was lost, and shows no password."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, EngineLost
from queryshift.support.optional import need

from ..stored_vectors import address_options

OPTIONS = {"table": str, "vector": str, "id": str, "ef": int, "probes": int}
REFUSALS = ("authentication", "password", "role", "does not exist", "no pg_hba.conf entry")


class Connection:
    """One connection, for any number of threads, one statement at a time.

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

    def execute(self, statement: Any, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement; the next call connects again where the connection was lost."""
        with self._cursor() as cursor:
            return list(cursor.execute(statement, arguments).fetchall())

    def execute_without_index(
        self, statement: Any, arguments: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """All rows of a statement that reads whole tables, however long it takes."""
        with self._cursor() as cursor, cursor.connection.transaction():
            cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute("SET LOCAL statement_timeout = 0")
            return list(cursor.execute(statement, arguments).fetchall())

    def change(self, name: str, setting: Any) -> None:
        """Have another setting from the next statement on, which connects anew for it."""
        if self._settings.get(name) != setting:
            self._settings[name] = setting
            self.close()

    @property
    def place(self) -> str:
        """Server and database."""
        with self._cursor() as cursor:
            info = cursor.connection.info
            return f"postgresql://{info.host}:{info.port}/{info.dbname}"

    def run(self, statement: Any, arguments: Sequence[Any] = ()) -> None:
        """A statement that gives no rows."""
        with self._cursor() as cursor:
            cursor.execute(statement, arguments)

    def close(self) -> None:
        """End it; the next statement connects again."""
        with self._lock:
            self._drop()

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """A cursor while no other thread has one; errors become the library's."""
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


def split_address(address: str) -> tuple[str, dict[str, Any]]:
    """The connection string of libpq, and the options that are the gallery's."""
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
