"""The journal of a build: which shards are finished, on disk before anybody relies on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, BinaryIO, NamedTuple

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id


class BadRow(NamedTuple):
    """An item that was left out: its id, and why."""

    id: Id
    reason: str


@dataclass(frozen=True)
class Receipt:
    """A finished shard: how many rows it has, and what was left out of it."""

    shard: int
    rows: int
    bad: tuple[BadRow, ...]


class Journal:
    """A folder with a line for each finished shard. One process at a time has it.

    Args:
        folder: Where it is; it is made where it is not there.
        plan: The digest of the items and the model; a journal of another plan is refused.
        restart: Whether to forget what is finished.
    """

    def __init__(self, folder: Path, plan: str, restart: bool = False) -> None:
        self.folder, self._plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _locked(folder)
        self.finished: dict[int, Receipt] = {}
        try:
            self._read(restart)
        except BadInput:
            self.close()
            raise

    def add(self, receipt: Receipt) -> None:
        """Record a finished shard; when this returns, it is on disk."""
        self._append(asdict(receipt))
        self.finished[receipt.shard] = receipt

    def forget(self) -> None:
        """Start over: nothing is finished."""
        self.finished = {}
        self._file.seek(0)
        self._file.truncate()
        self._append({"plan": self._plan})

    def remove(self) -> None:
        """Remove the folder, the journal first: without it nothing in there counts."""
        (self.folder / "journal.jsonl").unlink()
        rmtree(self.folder)

    def close(self) -> None:
        """Let another process have it."""
        self._file.close()

    def _read(self, restart: bool) -> None:
        """Take over the whole lines; a last one that was cut off by a kill is dropped."""
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        header, *lines = [json.loads(line) for line in whole.splitlines()] or [{}]
        if restart or not lines:
            self.forget()
            return
        if header != {"plan": self._plan}:
            raise BadInput(
                f'"{self.folder}" holds an unfinished build of other items, of another model or '
                "with other settings: finish that one, or start over with --restart."
            )
        self._file.seek(len(whole))
        self._file.truncate()
        for line in lines:
            bad = tuple(BadRow(*row) for row in line["bad"])
            self.finished[line["shard"]] = Receipt(line["shard"], line["rows"], bad)

    def _append(self, values: dict[str, Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def journal(folder: Path, plan: str, restart: bool) -> Iterator[Journal]:
    """The journal in a folder, for this process alone while the block lasts.

    One without a finished shard is removed in the end: it would only be in the way.
    """
    opened = Journal(folder, plan, restart)
    try:
        yield opened
    finally:
        if not opened.finished and folder.is_dir():
            opened.remove()
        opened.close()


def _locked(folder: Path) -> BinaryIO:
    """The journal's file, which no other process has open; a killed one has let go of it."""
    file = (folder / "journal.jsonl").open("ab+")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BadInput(
                f'another process is building into "{folder}": wait for it, or stop it.'
            ) from None
    file.seek(0)
    return file
