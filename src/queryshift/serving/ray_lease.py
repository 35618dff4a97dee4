"""The lease of a share: a file that its holder renews, and a term that only grows."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from platform import node
from uuid import uuid4

from queryshift.errors import BadFile, Error

from .tenant_files import write_text

logger = logging.getLogger("queryshift.serving")
HELD = 0.6  # of the lease's seconds after which its holder stops, before others may take it
PATIENCE_S = 30.0  # for a holder that was never seen alive: it may still be starting


class LeaseLost(Error):
    """Another process holds the lease: this one must neither answer nor write."""


class Lease:
    """One share, held by at most one process, also where that was frozen or cut off.

    The holder writes heartbeats. A holder that has not written one for a part of `seconds` stops
    answering and learning; another process that sees no new one for all of `seconds`, by its own
    clock, takes the share. Files take the place of former ones only under a lock and after a look
    at who holds the lease, so that a process which wakes up late cannot write any more.

    Args:
        data: the folder of all tenants, which all machines share.
        share: its number.
        seconds: without a heartbeat, after which it may be taken.

    Attributes:
        term: how many have held this lease, as of when it was taken; 0: it is not ours.
    """

    def __init__(self, data: Path, share: int, seconds: float) -> None:
        folder = data / "owners"
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._terms = folder / f"{share}.lease", folder / f"{share}.term"
        self._lock = folder / f"{share}.lock"
        self._seconds, self.share, self.term = seconds, share, 0
        self._me = f"{node()} {os.getpid()} {uuid4().hex[:8]}"
        self._renewed = 0.0
        self._seen, self._since, self._alive = "", time.monotonic(), False

    @property
    def held(self) -> bool:
        """Whether it is ours for certain, by the clock: no other process can have taken it yet."""
        return self.term > 0 and time.monotonic() - self._renewed < HELD * self._seconds

    def renew(self) -> None:
        """Write a heartbeat; `LeaseLost` where another process has taken the share."""
        now = time.monotonic()
        with self._locked():
            self._check()
            self._write(self._me, self.term)
        self._renewed = now

    def free(self, own: bool, stagger: float) -> bool:
        """Whether no process holds it any more, as far as can be seen.

        Args:
            own: whether it is the share that this process is meant for.
            stagger: seconds to leave to others, who hold fewer.
        """
        text = _read(self._file)
        if text != self._seen:
            self._alive = bool(self._seen)
            self._seen, self._since = text, time.monotonic()
        released = _holder(text) == ""
        if own and released:
            return True
        soon = own or (self._alive and not released)
        limit = self._seconds + stagger if soon else PATIENCE_S
        return time.monotonic() - self._since > limit

    def take(self) -> bool:
        """Take it, unless another process was faster; whether it is ours now."""
        now = time.monotonic()
        with self._locked():
            if _read(self._file) != self._seen:
                return False
            term = 1 + int(_read(self._terms) or 0)
            write_text(self._terms, str(term))
            self._write(self._me, term)
        self._renewed, self.term = now, term
        return True

    def release(self) -> None:
        """Give it back, everything written."""
        with self._locked():
            self._check()
            self._write("", self.term)
        self.term = 0

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Held while a file takes the place of another; refused where the lease is lost."""
        with self._locked():
            try:
                self._check()
            except LeaseLost as error:
                raise BadFile(str(error)) from error
            yield

    def _check(self) -> None:
        if self.term == 0 or _holder(_read(self._file)) != self._me:
            raise LeaseLost(f"share {self.share} is held by another process now.")

    def _write(self, holder: str, term: int) -> None:
        """Say who holds it, at once or not at all; a lost heartbeat costs nothing."""
        beside = self._file.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps({"holder": holder, "term": term, "beat": uuid4().hex}))
        beside.replace(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        opened = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)


def shared_folder(data: Path) -> int:
    """A lock that all owners of a folder hold together: a server without Ray holds it alone."""
    data.mkdir(parents=True, exist_ok=True)
    opened, told = os.open(data / ".lock", os.O_RDWR | os.O_CREAT, 0o644), False
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return opened
        except OSError:
            if not told:
                logger.warning('"%s" is used by a server without Ray: waiting for its end', data)
            told = True
            time.sleep(0.1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _holder(text: str) -> str | None:
    """Who holds a lease; "" where it was released, None where the file cannot be understood."""
    try:
        return str(json.loads(text)["holder"]) if text else ""
    except (ValueError, KeyError, TypeError):
        return None
