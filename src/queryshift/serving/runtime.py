"""What all collections of a process share: its settings, store, threads and counters."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from .answering.work_queue import WorkQueue
from .metrics import Metrics
from .settings import ServeSettings
from .store.database import Database
from .store.schema import open_store
from .store.writer import Writer

DECODERS = max(1, (os.cpu_count() or 2) // 2)  # the other cores answer and learn
LOOKS, LOOKS_OF_CALLER = 2048, 512  # pieces of work for who only looks
PATIENCE = 0.05  # seconds that work for who only looks waits for a pause in the answers


@dataclass(frozen=True)
class Runtime:
    """Shared by the collections of one process.

    Attributes:
        settings: of the server.
        metrics: what is counted.
        store: the database.
        writer: writes to it.
        model: the thread that answers.
        learner: the thread in which sessions change.
        decoding: files of queries, decoded.
        background: what is only looked at: samples, corrupted queries, ordinary queries measured.
    """

    settings: ServeSettings
    metrics: Metrics
    store: Database
    writer: Writer
    model: Executor
    learner: Executor
    decoding: WorkQueue
    background: WorkQueue

    @classmethod
    def of(cls, settings: ServeSettings, metrics: Metrics) -> Runtime:
        """That of a server with these settings, its store opened."""
        waiting = (settings.queues.waiting, settings.queues.waiting_of_tenant)
        return cls(
            settings,
            metrics,
            open_store(settings),
            Writer(metrics),
            ThreadPoolExecutor(1, "queryshift-model"),
            ThreadPoolExecutor(1, "queryshift-learner"),
            WorkQueue("decoder", DECODERS, *waiting),
            WorkQueue("background", 1, LOOKS, LOOKS_OF_CALLER, PATIENCE),
        )

    async def run(self) -> None:
        """Decode and do what waits, until cancelled."""
        await asyncio.gather(self.decoding.run(), self.background.run())

    def close(self) -> None:
        """Give the store back when all is written."""
        self.writer.close()
        self.store.close()
