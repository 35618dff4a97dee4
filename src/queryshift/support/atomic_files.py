"""Atomic writes: a file is replaced as a whole, and leftovers of killed writers are removed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from platform import node
from shutil import rmtree
from uuid import uuid4

STALE_AFTER = 3600.0  # seconds without a write; live writers are faster


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; its file replaces `path` if the block ends without an error.

    It is in a new hidden folder next to `path`; a writer may create other files there too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path)
    folder = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid4().hex[:12]}")
    folder.mkdir()
    try:
        temporary = folder / "whole"
        yield temporary
        temporary.chmod(folder.stat().st_mode & 0o666)  # like any new file; safetensors sets 0600
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        rmtree(folder, ignore_errors=True)


def remove_stale(path: Path) -> None:
    """Remove temporary files of `path` whose writers were killed."""
    pattern = _written_by(path.name)
    for beside in path.parent.iterdir():
        match = pattern.fullmatch(beside.name)
        if match and (_writer_is_dead(match["machine"], match["process"]) or _is_old(beside)):
            rmtree(beside, ignore_errors=True)  # another process may remove it first


def _written_by(name: str) -> re.Pattern[str]:
    """Return the pattern of temporary names: the writer's machine, its process, a number."""
    return re.compile(
        rf"\.{re.escape(name)}\.(?P<machine>[0-9a-f]{{8}})-(?P<process>[0-9]+)-[0-9a-f]{{12}}"
    )


def _machine() -> str:
    """Return eight hexadecimal digits for this machine, as process numbers repeat elsewhere."""
    return blake2b(node().encode(), digest_size=4).hexdigest()


def _is_old(folder: Path) -> bool:
    try:
        latest = max(part.stat().st_mtime for part in (folder, *folder.iterdir()))
    except OSError:  # it is gone
        return False
    return time.time() - latest > STALE_AFTER


def _writer_is_dead(machine: str, process: str) -> bool:
    if machine != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)  # signal 0 only checks whether the process exists
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False
