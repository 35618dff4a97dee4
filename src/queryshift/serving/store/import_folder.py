"""A data folder of the former format, taken into the store once: files of tenants become rows."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from queryshift.errors import BadFile
from queryshift.sessions.state_file import KIND
from queryshift.support.tensor_files import read

from ..settings import Mode
from .database import Database
from .snapshot_rows import SnapshotRows
from .stored_tenant import COUNTS, Change, Stale, StoredState
from .tenant_rows import TenantRows

FOLDER, KEPT = "collections", "collections-before-the-database"
NOTE = """The tenants that were here are in the store of queryshift serve.
This file stands in the way of a server that would read the old files.
They are untouched in the folder "{kept}": to go back to that version, rename it.
"""
DAMAGED = (ValueError, TypeError, LookupError)
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
        rows, kept = TenantRows(database, collection.name), collection / "ordinary.json"
        if kept.is_file() and rows.reference() is None:
            rows.put_reference(kept.read_text(encoding="utf-8", errors="replace"))
        for tenant in sorted((collection / "tenants").glob("*/tenant.json")):
            count += _import_tenant(rows, SnapshotRows(database), tenant.parent, keep_rows)
    folder.rename(data / KEPT)
    folder.write_text(NOTE.format(kept=KEPT), encoding="utf-8")
    logger.warning('%d tenants of "%s" were taken into the store', count, folder)
    return count


def _import_tenant(rows: TenantRows, snapshots: SnapshotRows, folder: Path, keep_rows: int) -> bool:
    """One tenant; whether it was taken. After a kill it is taken again, and counts once."""
    try:
        told = json.loads((folder / "tenant.json").read_text(encoding="utf-8"))
        clicks = {(source, adapted): times for source, adapted, times in told["clicks"]}
        counts, mode = {name: int(told[name]) for name in COUNTS}, told["mode"]
        if mode not in get_args(Mode):
            raise ValueError(f'its mode is "{mode}"')
        name, seen, events = str(told["tenant"]), float(told["last_seen"]), list(told["events"])
    except DAMAGED as error:
        logger.error('the tenant in "%s" is not taken over: %s', folder, error)
        return False
    made = rows.make(name, mode, sys.maxsize, float(told.get("created", 0)))
    if made is None:
        return False
    history = list(_rows(folder / "history.jsonl"))[-keep_rows:]
    learnt = (clicks, events, mode, _state(folder / "state.safetensors"), history, keep_rows)
    try:
        rows.commit(Change(made.id, 1, "imported", counts, seen, *learnt))
    except Stale:
        return False  # it was stored before, and has changed since
    for about, kept in _snapshots(folder / "snapshots"):
        snapshots.keep(made.id, about, kept, sys.maxsize)
    return True


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
            batch = int(row["batch"])
        except DAMAGED:
            continue
        if batch > last:
            last = batch
            yield row


def _snapshots(folder: Path) -> Iterator[tuple[dict[str, Any], StoredState]]:
    for described in sorted(folder.glob("*.json")):
        state = _state(described.with_suffix(".safetensors"))
        try:
            about = json.loads(described.read_bytes())
            told = {name: about[name] for name in ("name", "time", "batches")}
        except DAMAGED:
            continue
        if state is not None:
            yield told, state
