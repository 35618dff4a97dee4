"""The database under the service: transactions, notifications, a lock, one kind of error."""

from __future__ import annotations

import fcntl
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, exc, text
from sqlalchemy.engine import make_url

from queryshift.errors import BadInput
from queryshift.support.optional import need

from ..errors import DiskFull, StoreTrouble

FILE = "queryshift.db"
CHANNEL = "queryshift"  # of NOTIFY
CONNECT_S = 5  # that PostgreSQL may take to answer
SILENT_MS = 10_000  # after which a connection whose other side is silent is given up
logger = logging.getLogger("queryshift.serving")
WAIT_S = 30.0  # for a server that is ending, as in a restart
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")


class Database:
    """SQLite in a folder, or PostgreSQL at an address; what differs between them is here.

    Args:
        address: "postgresql://…"; None: a file in the folder.
        folder: where that file is.

    Attributes:
        shared: whether other processes may write to it too.
        lock_row: what makes writers of one row wait for each other; SQLite has one writer anyway.
    """

    def __init__(self, address: str | None, folder: Path) -> None:
        self.shared = address is not None
        self.lock_row = " FOR UPDATE" if self.shared else ""
        self.engine = _sqlite(folder / FILE) if address is None else _postgres(address)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for looks that change nothing."""
        with self._told(), self.engine.connect() as connection:
            level = {"isolation_level": "REPEATABLE READ"} if self.shared else {}
            yield connection.execution_options(reads=True, **level)  # one moment, for all it reads

    @contextmanager
    def writing(
        self, sync: str = "FULL", forgets: bool = False, tells: bool = False
    ) -> Iterator[Connection]:
        """A transaction, which is kept when the block ends and undone when it fails.

        With `forgets`, SQLite's log of writes is emptied then, so that what was deleted is nowhere
        in its files; on a full disk that is left to the next time. With `tells`, other processes
        hear at once that something changed.
        In SQLite one with `sync="NORMAL"` outlives this process at once, and a power failure when
        a later one that is synced does: of its log a beginning is left.
        """
        with self._told(writing=True), self.engine.execution_options(sync=sync).begin() as begun:
            yield begun
            if tells and self.shared:
                begun.execute(text(f"NOTIFY {CHANNEL}"))
        if forgets and not self.shared:
            with suppress(sqlite3.Error), self.engine.connect() as connection:
                connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rows(self, statement: str, **values: Any) -> Sequence[sa.Row[Any]]:
        """The rows that one look finds; a value that is a list stands for its members."""
        lists: list[Any] = [
            sa.bindparam(name, expanding=True) for name in values if type(values[name]) is list
        ]
        with self.reading() as connection:
            return connection.execute(text(statement).bindparams(*lists), values).all()

    async def changes(self) -> AsyncIterator[None]:
        """One for what happened before, then one for each change that a process tells others of.

        A pooler of transactions may lose them.
        """
        psycopg = need("psycopg", "postgres", "a store in PostgreSQL")
        url = self.engine.url.set(drivername="postgresql")
        address = url.render_as_string(hide_password=False)
        try:
            async with await psycopg.AsyncConnection.connect(
                address, autocommit=True
            ) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                yield
                async for _ in connection.notifies():
                    yield
        except psycopg.Error as error:
            raise StoreTrouble(f"no notifications from PostgreSQL ({error}).") from error

    def wait(self, seconds: float) -> None:
        """Return when the database answers; raise what it says when it does not in time."""
        _retry(seconds, StoreTrouble, self.rows, "SELECT 1")

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def _told(self, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except (exc.IntegrityError, exc.ProgrammingError, exc.DataError):
            raise  # a bug of ours
        except exc.SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            if writing and not self.shared:
                told = f"nothing was changed, since the store cannot be written ({cause})"
                raise DiskFull(f"{told}: is there room on the disk?") from error
            raise StoreTrouble(f"the store does not answer ({cause}): is it there?") from error


def insert(
    table: str, keys: Sequence[str], others: Sequence[str], update: str = ""
) -> sa.TextClause:
    """A statement that inserts a row; the values have the columns' names.

    Args:
        table: into which.
        keys: columns by which a row that is there is found; none: a second one is an error.
        others: columns that such a row is given anew.
        update: how they are, where it is not by the new values; "NOTHING": it stays as it is.
    """
    columns = (*keys, *others)
    update = update or ", ".join(f"{name} = excluded.{name}" for name in others)
    action = "NOTHING" if update == "NOTHING" else f"UPDATE SET {update}"
    conflict = f"ON CONFLICT ({', '.join(keys)}) DO {action}" if keys else ""
    values = ", ".join(f":{name}" for name in columns)
    return text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) {conflict}")


def _sqlite(path: Path) -> Engine:
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"isolation_level": None})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # damaged text costs whoever uses it an error, and nobody else
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA synchronous={options.get('sync', 'FULL')}")
        connection.exec_driver_sql("BEGIN" if options.get("reads") else "BEGIN IMMEDIATE")

    return engine


def _postgres(address: str) -> Engine:
    need("psycopg", "postgres", "a store in PostgreSQL")
    try:
        url = make_url(address).set(drivername="postgresql+psycopg")
    except exc.ArgumentError:
        raise BadInput("store is no address: expected postgresql://USER@HOST/DATABASE.") from None
    given = {"connect_timeout": CONNECT_S, "tcp_user_timeout": SILENT_MS, "prepare_threshold": None}
    return sa.create_engine(url, pool_pre_ping=True, pool_size=4, connect_args=given)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for the block; one that is held is waited for, then refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            _retry(WAIT_S, OSError, fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            told = f'another server uses the folder "{folder}": end it, or set another data.'
            raise BadInput(told) from None
        yield


def _retry(seconds: float, failure: type[Exception], work: Callable[..., Any], *args: Any) -> None:
    """Do something again until it succeeds, or raise its failure after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            work(*args)
            return
        except failure:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
