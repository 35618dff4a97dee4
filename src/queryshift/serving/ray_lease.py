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
from typing import Any
from uuid import uuid4

from queryshift.errors import BadFile, Error

from .tenant_files import write_text

logger = logging.getLogger("queryshift.serving")
HELD = 0.6  # of the lease's seconds after which its holder stops, before others may take it
PATIENCE_S = 30.0  # with a share that nobody was seen to hold: its owner may still be starting
STUCK = 1.5  # times the lease's seconds without a heartbeat: who has the lock then is frozen
LOCK_WAIT = 0.125  # of the lease's seconds that a heartbeat may wait for the lock
POLL_S = 0.005  # between tries to lock


class LeaseLost(Error):
    """Another process holds the lease: this one must neither answer nor write."""


class LockBusy(BadFile):
    """Another process has the lock of a share; one that was frozen with it never lets go."""


class Lease:
    """One share, held by at most one process, also where that was frozen or cut off.

    The holder writes heartbeats. A holder that has not written one for a part of `seconds` stops
    answering and learning; another process that sees no new one for all of `seconds`, by its own
    clock, takes the share. Files take the place of former ones only under a lock and after a look
    at who holds the lease, so that a process which wakes up late cannot write any more. Nobody
    waits long for that lock: who was frozen with it is `stuck`, and is to be ended.

    Args:
        data: the folder of all tenants, which all machines share.
        share: its number.
        seconds: without a heartbeat, after which it may be taken.
        owner: the number of the owner that this process is.
        patience: seconds that another owner's share is left alone where nobody was seen to hold it;
            None: long enough for that owner to start.

    Attributes:
        term: how many have held this lease, as of when it was taken; 0: it is not ours.
        stuck: the lease of who let its time go by with the lock in hand; empty: nobody did.
    """

    def __init__(
        self,
        data: Path,
        share: int,
        seconds: float,
        owner: int = 0,
        patience: float | None = None,
    ) -> None:
        folder = data / "owners"
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._terms = folder / f"{share}.lease", folder / f"{share}.term"
        self._lock = folder / f"{share}.lock"
        self._seconds, self.share, self.term = seconds, share, 0
        self._owner, self._patience = owner, PATIENCE_S if patience is None else patience
        self.stuck: dict[str, Any] = {}
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
        with self._locked(LOCK_WAIT * self._seconds):
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
        limit = self._seconds + stagger if soon else self._patience
        return time.monotonic() - self._since > limit

    def take(self) -> bool:
        """Take it, unless another process was faster; whether it is ours now."""
        now = time.monotonic()
        try:
            with self._locked(0):
                if _read(self._file) != self._seen:
                    return False
                term = 1 + int(_read(self._terms) or 0)
                write_text(self._terms, str(term))
                self._write(self._me, term)
        except LockBusy:
            self.stuck = _told(self._seen) if now - self._since > STUCK * self._seconds else {}
            return False
        self._renewed, self.term, self.stuck = now, term, {}
        return True

    def release(self) -> None:
        """Give it back, everything written."""
        with self._locked(self._seconds):
            self._check()
            self._write("", self.term)
        self.term = 0

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Held while a file takes the place of another; refused where the lease is lost."""
        with self._locked(self._seconds):
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
        told = {"holder": holder, "owner": self._owner, "term": term, "beat": uuid4().hex}
        beside.write_text(json.dumps(told))
        beside.replace(self._file)

    @contextmanager
    def _locked(self, seconds: float) -> Iterator[None]:
        opened = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + seconds
            while not _lock(opened, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise LockBusy(f"share {self.share} is locked by another process: try again.")
                time.sleep(POLL_S)
            yield
        finally:
            os.close(opened)


def shared_folder(data: Path) -> int:
    """A lock that all owners of a folder hold together: a server without Ray holds it alone."""
    data.mkdir(parents=True, exist_ok=True)
    opened, told = os.open(data / ".lock", os.O_RDWR | os.O_CREAT, 0o644), False
    while not _lock(opened, fcntl.LOCK_SH):
        if not told:
            logger.warning('"%s" is used by a server without Ray: waiting for its end', data)
        told = True
        time.sleep(0.1)
    return opened


def _lock(opened: int, kind: int) -> bool:
    """Lock an open file, unless others have; whether it is locked now."""
    try:
        fcntl.flock(opened, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _holder(text: str) -> str | None:
    """Who holds a lease; "" where it was released, None where the file cannot be understood."""
    return _told(text).get("holder") if text else ""


def _told(text: str) -> dict[str, Any]:
    """What a lease says; nothing where it cannot be understood."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
