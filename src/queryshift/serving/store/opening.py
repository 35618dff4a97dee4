"""The store of a server: its database opened, brought up to date, old files taken in."""

from __future__ import annotations

from ..settings import ServeSettings
from .database import Database, wait_for
from .import_folder import import_folder
from .schema import migrate

START_S = 30.0  # that PostgreSQL may take to come up beside us


def open_store(settings: ServeSettings) -> Database:
    """The database that the settings name, ready to be used."""
    database = Database(settings.store, settings.data)
    wait_for(database, START_S if database.shared else 0)
    migrate(database)
    import_folder(database, settings.data, settings.tenants.history)
    return database
