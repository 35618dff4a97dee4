"""What all collections of a process share: its settings, store, threads and counters."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .answering.queues import PATIENCE, WorkQueue
from .errors import StoreTrouble
from .metrics import Metrics
from .settings import ServeSettings
from .store.schema import open_store

LOOKS, LOOKS_OF_CALLER = 2048, 512  # pieces of work for who only looks
Value = TypeVar("Value")
logger = logging.getLogger("queryshift.serving")


class Writer:
    """Writes one thing after another; a full disk degrades the service, and it says so.

    Args:
        metrics: what is counted.

    Attributes:
        trouble: why the latest write failed; None where it did not.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.trouble: str | None = None
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "queryshift-disk")

    async def write(self, function: Callable[..., Value], *args: Any) -> Value:
        """What a function gives that writes; a `StoreTrouble` of it is noted, and raised."""
        loop = asyncio.get_running_loop()
        try:
            written = await loop.run_in_executor(self._thread, function, *args)
        except StoreTrouble as error:
            if self.trouble is None:
                logger.error("the store cannot be written, answers go on: %s", error)
            self._note(str(error))
            self._metrics.failed_saves.inc()
            raise
        self._note(None)
        self._metrics.saves.inc()
        return written

    def close(self) -> None:
        """End the thread when it has written all."""
        self._thread.shutdown()

    def _note(self, trouble: str | None) -> None:
        if trouble is None and self.trouble is not None:
            logger.warning("the store can be written again")
        self.trouble = trouble
        self._metrics.disk_trouble.set(trouble is not None)


class Runtime:
    """Shared by the collections of one process.

    Args:
        settings: of the server.
        metrics: what is counted.

    Attributes:
        store: the database.
        writer: writes to it.
        model: the thread that answers.
        learner: the thread in which sessions change.
        decoding: files of queries, decoded.
        background: what is only looked at: samples, corrupted queries, reference queries measured.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.store, self.writer = open_store(settings), Writer(metrics)
        self.model = ThreadPoolExecutor(1, "queryshift-model")
        self.learner = ThreadPoolExecutor(1, "queryshift-learner")
        waiting = (settings.queues.waiting, settings.queues.waiting_of_tenant)
        self.decoding = WorkQueue("decoder", max(1, (os.cpu_count() or 1) // 2), *waiting)
        self.background = WorkQueue("background", 1, LOOKS, LOOKS_OF_CALLER, PATIENCE)

    async def run(self) -> None:
        """Decode and do what waits, until cancelled."""
        await asyncio.gather(self.decoding.run(), self.background.run())

    def close(self) -> None:
        """Give the store back when all is written."""
        self.writer.close()
        self.store.close()
