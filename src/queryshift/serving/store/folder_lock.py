"""One server per data folder: two would write over each other's tenants."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queryshift.errors import BadInput

WAIT_S = 30.0  # for a server that is ending, as in a restart


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for the block; one that is held is waited for, then refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise BadInput(
                        f'another server uses the folder "{folder}": end it, or set another data.'
                    ) from None
                time.sleep(0.1)
        yield
