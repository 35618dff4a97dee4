"""Updates beside the answers: one background thread for all sessions, one update of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache


class Worker:
    """The update of one session that runs in the background, if there is one."""

    def __init__(self) -> None:
        self._running: Future[None] | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether an update is running, or waits for those of other sessions."""
        return self._running is not None and not self._running.done()

    def start(self, update: Callable[[], None]) -> None:
        """Run an update; the caller has seen that none is under way."""
        self._running = _pool(os.getpid()).submit(self._run, update)

    def wait(self) -> None:
        """Return when no update is under way; never called by one who holds what it needs."""
        if self._running is not None:
            wait([self._running])

    def check(self) -> None:
        """Raise, once, what went wrong in the background."""
        error, self._error = self._error, None
        if error is not None:
            error.add_note("raised by an update in the background: the session is as before it.")
            raise error

    def _run(self, update: Callable[[], None]) -> None:
        try:
            update()
        except BaseException as error:
            self._error = error


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One thread per process, which a forked one lacks: all sessions share its encoder shells."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="queryshift-worker")
