"""The store of a server opened: its schema brought up to date, old files taken in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from queryshift import __version__
from queryshift.errors import BadInput

from ..settings import ServeSettings
from .database import Database
from .import_folder import import_folder

START_S = 30.0  # that PostgreSQL may take to come up beside us
LOCK = 7_163_702_741  # of PostgreSQL's advisory locks: one process at a time changes the schema
HERE = Path(__file__).parent


def open_store(settings: ServeSettings) -> Database:
    """The database that the settings name, ready to be used."""
    database = Database(settings.store, settings.data)
    database.wait(START_S if database.shared else 0)
    with alone(database):
        migrate(database)
        import_folder(database, settings.data, settings.tenants.history)
    return database


@contextmanager
def alone(database: Database) -> Iterator[None]:
    """Hold other processes that start at the same time; SQLite has one process anyway."""
    if not database.shared:
        yield
        return
    with database.writing() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        yield


def migrate(database: Database) -> None:
    """Bring the schema up to date, in one transaction; a newer one is refused, unchanged."""
    script = ScriptDirectory(str(HERE), version_locations=[str(HERE / "migrations")])
    with database.writing() as connection:
        now = MigrationContext.configure(connection).get_current_revision()
        if now is not None and now not in {one.revision for one in script.walk_revisions()}:
            told = f'the store has schema "{now}" of a newer queryshift, this is {__version__}'
            raise BadInput(f"{told}: start the newer one, or restore a backup.")

        def up(current: object, _: object) -> object:
            return script._upgrade_revs("head", current)  # type: ignore[arg-type]

        with EnvironmentContext(Config(), script, fn=up) as environment:
            environment.configure(connection=connection, transactional_ddl=False)
            environment.run_migrations()
