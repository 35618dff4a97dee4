"""The lease of an owner: a file that one living process holds, and a term that only grows."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

from .tenant_files import write_text

logger = logging.getLogger("queryshift.serving")
PAUSE_S = 0.1


class Lease:
    """Held until the process ends, however it ends; who comes second waits.

    The kernel gives the lock back when the process is gone: a restarted owner begins when its
    predecessor cannot write any more, also where Ray took it for dead too early.

    Args:
        data: the folder of all tenants, which all machines share.
        owner: number of the owner.

    Attributes:
        term: how many have held this lease.
    """

    def __init__(self, data: Path, owner: int) -> None:
        folder = data / "owners"
        folder.mkdir(parents=True, exist_ok=True)
        self._files = (
            _locked(data / ".lock", fcntl.LOCK_SH),  # a server without Ray holds it alone
            _locked(folder / f"{owner}.lock", fcntl.LOCK_EX),
        )
        counted = folder / f"{owner}.term"
        self.term = 1 + (int(counted.read_text()) if counted.exists() else 0)
        write_text(counted, str(self.term))


def _locked(path: Path, kind: int) -> int:
    """A lock on a file, waited for as long as it takes; the open file holds it."""
    opened, told = os.open(path, os.O_RDWR | os.O_CREAT, 0o644), False
    while True:
        try:
            fcntl.flock(opened, kind | fcntl.LOCK_NB)
            return opened
        except OSError:
            if not told:
                logger.warning('"%s" is held by another process: waiting for its end', path)
            told = True
            time.sleep(PAUSE_S)
