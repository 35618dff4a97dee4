"""A data folder of the former format, taken into the store once: files of tenants become rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import text

from queryshift.errors import BadFile
from queryshift.sessions.feedback import ClickScores
from queryshift.sessions.state_file import KIND
from queryshift.support.tensor_files import read

from ..settings import Mode
from .collection_rows import store_ordinary, stored_ordinary
from .database import Database
from .snapshot_rows import PUT as PUT_SNAPSHOT
from .stored_tenant import COUNTS, Record, StoredState
from .tenant_rows import PUT_STATE, add_clicks, add_events, add_rows

FOLDER, KEPT = "collections", "collections-before-the-database"
NOTE = """The tenants that were here are in the store of queryshift serve.
This file stands in the way of a server that would read the old files.
They are untouched in the folder "{kept}": to go back to that version, rename it.
"""
logger = logging.getLogger("queryshift.serving")


def import_folder(database: Database, data: Path, keep_rows: int) -> int:
    """Take the tenants of a folder into the store; how many. What is stored already stays.

    No other process may do it at the same time. The old files are kept under another name, and a
    file takes the folder's place, so that an old server refuses to start.

    Args:
        database: the store.
        data: the data folder.
        keep_rows: rows of a history that are kept.
    """
    folder = data / FOLDER
    if not folder.is_dir():
        return 0
    count = 0
    for collection in sorted(folder.iterdir()):
        _import_ordinary(database, collection)
        for tenant in sorted((collection / "tenants").glob("*/tenant.json")):
            count += _import_tenant(database, collection.name, tenant.parent, keep_rows)
    folder.rename(data / KEPT)
    folder.write_text(NOTE.format(kept=KEPT), encoding="utf-8")
    logger.warning('%d tenants of "%s" were taken into the store', count, folder)
    return count


def _import_ordinary(database: Database, collection: Path) -> None:
    kept, name = collection / "ordinary.json", collection.name
    if kept.is_file() and stored_ordinary(database, name) is None:
        store_ordinary(database, name, kept.read_text(encoding="utf-8", errors="replace"))


def _import_tenant(database: Database, collection: str, folder: Path, keep_rows: int) -> bool:
    """One tenant, in one transaction; whether it was taken."""
    try:
        record = _record((folder / "tenant.json").read_text(encoding="utf-8"))
    except (ValueError, TypeError, LookupError) as error:
        logger.error('the tenant in "%s" is not taken over: %s', folder, error)
        return False
    with database.writing() as connection:
        values = {name: getattr(record, name) for name in (*COUNTS, "mode", "created", "last_seen")}
        values |= {"collection": collection, "name": record.tenant}
        id = connection.scalar(text(MAKE), values)
        if id is None:
            return False
        if (state := _state(folder / "state.safetensors")) is not None:
            connection.execute(text(PUT_STATE), {"id": id, **vars(state)})
        rows = list(_rows(folder / "history.jsonl"))[-keep_rows:]
        add_rows(connection, id, rows, keep_rows)
        add_events(connection, id, record.events)
        add_clicks(connection, id, record.clicks.counts())
        for about, kept in _snapshots(folder / "snapshots"):
            connection.execute(text(PUT_SNAPSHOT), {"id": id, **about, **vars(kept)})
    return True


def _record(text: str) -> Record:
    values = json.loads(text)
    counts = {(source, adapted): times for source, adapted, times in values["clicks"]}
    record = Record(**values | {"clicks": ClickScores(counts)})
    if record.mode not in get_args(Mode):
        raise ValueError(f'its mode is "{record.mode}"')
    return record


def _state(path: Path) -> StoredState | None:
    """A state file's bytes, damaged or not, and what it was learnt with."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        _, about = read(content, KIND, verify=False)
        return StoredState(content, str(about["fingerprint"]), str(about["gallery"]))
    except (BadFile, LookupError, TypeError):
        return StoredState(content, "", "")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a history with growing numbers; a damaged line is passed over."""
    last = 0
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("batch"), int) and row["batch"] > last:
            last = row["batch"]
            yield row


def _snapshots(folder: Path) -> Iterator[tuple[dict[str, Any], StoredState]]:
    for described in sorted(folder.glob("*.json")):
        state = _state(described.with_suffix(".safetensors"))
        try:
            about = json.loads(described.read_bytes())
            told = {name: about[name] for name in ("name", "time", "batches")}
        except (ValueError, LookupError, TypeError):
            continue
        if state is not None:
            yield told, state


MAKE = f"""
INSERT INTO tenants (collection, name, mode, created, last_seen, {", ".join(COUNTS)})
VALUES (:collection, :name, :mode, :created, :last_seen, {", ".join(f":{name}" for name in COUNTS)})
ON CONFLICT (collection, name) DO NOTHING RETURNING id
"""
