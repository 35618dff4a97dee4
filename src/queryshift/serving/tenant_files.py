"""A tenant's files: state, record, history and snapshots, each whole or not there."""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from queryshift.errors import BadFile
from queryshift.sessions.state_file import Snapshot, write_state
from queryshift.support.atomic_files import Committing, replacing

from .record import Record

logger = logging.getLogger("queryshift.serving")


class TenantFiles:
    """The folder of one tenant. Its name is a digest: nothing of a request becomes a path.

    Args:
        folder: of all tenants of a collection.
        tenant: the tenant's name.
        committing: gives what is entered while a file takes the place of another.
    """

    def __init__(self, folder: Path, tenant: str, committing: Committing = nullcontext) -> None:
        self._committing = committing
        self.folder = folder / sha256(tenant.encode()).hexdigest()[:32]
        self.state = self.folder / "state.safetensors"
        self.record = self.folder / "tenant.json"
        self.history = self.folder / "history.jsonl"
        self.snapshots = self.folder / "snapshots"

    def save(self, record: str, state: Snapshot | None) -> None:
        """Write state and record; what was there before stays where the disk is full."""
        if state is not None:
            write_state(self.state, state, self._committing)
        write_text(self.record, record, self._committing)

    def read_record(self) -> Record | None:
        """The record; None where there is none, or a damaged one; an error where the disk fails."""
        try:
            return Record.read(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadFile(f'"{self.record}" cannot be read ({error}).') from error
        except (BadFile, UnicodeDecodeError) as error:
            logger.warning('"%s" is passed over: %s', self.record, error)
            return None

    def append_history(self, rows: Iterable[dict[str, Any]], most: int) -> None:
        """Add rows of statistics; the file is cut back to `most` rows when it has twice as many."""
        with _told_of(self.history):
            self.folder.mkdir(parents=True, exist_ok=True)
            told = "".join(json.dumps(row) + "\n" for row in rows)
            with self._committing(), self.history.open("ab+") as file:
                file.write(_line_end(file) + told.encode())
            with self.history.open("rb") as file:
                lines = sum(1 for _ in file)
        if lines > 2 * most:
            kept = self.read_history(0, most, latest=True)
            told = "".join(json.dumps(row) + "\n" for row in kept)
            write_text(self.history, told, self._committing)

    def read_history(self, since: int, most: int, latest: bool = False) -> list[dict[str, Any]]:
        """Rows after `since`, the first or the latest `most`; a line cut short is passed over."""
        try:
            with self.history.open(encoding="utf-8") as file:
                rows = (row for row in map(_row, file) if row is not None and row["batch"] > since)
                return list(deque(rows, maxlen=most)) if latest else list(islice(rows, most))
        except OSError:
            return []

    def snapshot_files(self, name: str) -> tuple[Path, Path]:
        """Where a snapshot's state and its description are."""
        stem = sha256(name.encode()).hexdigest()[:32]
        return self.snapshots / f"{stem}.safetensors", self.snapshots / f"{stem}.json"

    def write_snapshot(self, about: dict[str, Any], state: Snapshot, record: str) -> None:
        """Write a named snapshot; when this returns it is on disk, of a new tenant too."""
        path, described = self.snapshot_files(about["name"])
        if not self.record.exists():
            write_text(self.record, record, self._committing)
        write_state(path, state, self._committing)
        write_text(described, json.dumps(about), self._committing)
        with _told_of(path):
            _sync_folder(self.snapshots)
            _sync_folder(self.folder)
            _sync_folder(self.folder.parent)

    def list_snapshots(self) -> list[dict[str, Any]]:
        """The snapshots, oldest first."""
        found = []
        for described in self.snapshots.glob("*.json"):
            if described.with_suffix(".safetensors").exists():
                try:
                    found.append(json.loads(described.read_text(encoding="utf-8")))
                except ValueError as error:
                    logger.warning('"%s" is passed over: %s', described, error)
        return sorted(found, key=lambda about: str(about["time"]))


def write_text(path: Path, text: str, committing: Committing = nullcontext) -> None:
    """Write a small file, whole or not at all."""
    with _told_of(path), replacing(path, committing) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadFile(f'"{path}" could not be written ({error}): make room on the disk.') from error


def _line_end(file: BinaryIO) -> bytes:
    """What the last line of a file lacks, if it was cut short."""
    if not (size := file.seek(0, os.SEEK_END)):
        return b""
    file.seek(size - 1)
    return b"" if file.read(1) == b"\n" else b"\n"


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "batch" in row else None


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder as lasting as the files."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
