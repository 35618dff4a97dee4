"""Answers: queries of all tenants wait in turn, and are answered in one forward."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from ..collection import Collection
from ..metrics import Metrics
from ..settings import QueueSettings
from .answer_batch import Answered, Asked, answer_rows
from .fair_queue import Demand, FairQueue

logger = logging.getLogger("queryshift.serving")
FIRST_GUESS = 0.01  # seconds per query, before any was answered
TOGETHER = 8  # queries of a request; from so many on a guard judges them by each other
HURRIED = 3  # batches without what takes long, before it has its turn


@dataclass(eq=False)
class _Waiting:
    """Queries of a request in the queue, and who waits for their answers."""

    asked: Asked
    answers: asyncio.Future[list[Answered]]

    def __len__(self) -> int:
        return len(self.asked)


class AnswerQueue:
    """The queue before one collection's model; all of it runs in the event loop but the forward.

    Each batch takes what is there: nobody waits for company. Where all tenants ask alike, it has
    many queries of a few of them, since what is done once for a tenant is then done once for many.
    Where one asks for much more than another, it has few places, and what takes long comes after
    what does not: the other waits for small batches.
    Queries of one request are answered eight at a time, whatever the load: a session judges queries
    by those that come with them.

    Args:
        collection: gives the collection as it is now.
        model: the thread that runs the model.
        settings: bounds of the queue.
        metrics: what is counted.
    """

    def __init__(
        self,
        collection: Callable[[], Collection],
        model: Executor,
        settings: QueueSettings,
        metrics: Metrics,
    ) -> None:
        self._collection, self._model = collection, model
        self._settings, self._metrics = settings, metrics
        self._queue = FairQueue[_Waiting](settings.waiting, settings.waiting_of_tenant, len)
        self._seconds = FIRST_GUESS
        self._asked = Demand()
        self._hurried = 0  # batches in a row that had nothing that takes long

    @property
    def busy(self) -> bool:
        """Whether queries wait for an answer."""
        return self._queue.waiting > 0

    def check_room(self, tenant: str, count: int) -> None:
        """Refuse a tenant that has too much waiting, before its queries are read."""
        self._queue.check_room(tenant, count, self._seconds)

    async def answer(self, tenant: str, asked: Asked) -> list[Answered]:
        """The answers to a tenant's queries; when cancelled, those still waiting are given up."""
        loop = asyncio.get_running_loop()
        parts = (asked[start : start + TOGETHER] for start in range(0, len(asked), TOGETHER))
        waiting = [_Waiting(part, loop.create_future()) for part in parts]
        self._queue.put(tenant, waiting, self._seconds)
        self._asked.add(tenant, len(asked))
        found = await asyncio.gather(*(one.answers for one in waiting))
        return [answer for part in found for answer in part]

    async def run(self) -> None:
        """Answer what waits, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._queue.some()
            batch = self._next()
            if not batch:
                continue
            started = time.perf_counter()
            work = (self._collection(), [one.asked for one in batch])
            try:
                answers = await loop.run_in_executor(self._model, answer_rows, *work)
            except Exception as error:  # a bug of ours: those who wait are told
                logger.exception("a batch was not answered")
                answers = [[Answered(error=error)] * len(one) for one in batch]
            self._measure(sum(map(len, batch)), time.perf_counter() - started)
            for one, found in zip(batch, answers, strict=True):
                if not one.answers.done():
                    one.answers.set_result(found)

    def _next(self) -> list[_Waiting]:
        """The next batch: what is there, without what was given up."""
        batch: list[_Waiting] = []
        places, even, most = Counter[str](), self._asked.even(), self._settings.batch
        few, tenant = self._settings.batch_of_tenant, ""
        share = max(few, most // min(2, len(self._asked) or 1)) if even else few

        self._hurried += 1

        def fits(one: _Waiting) -> bool:
            if not batch and (even or self._hurried > HURRIED):
                return True
            room = most - places.total()
            return len(one) <= (room if even else min(room, few))

        while True:
            full = [name for name, taken in places.items() if taken >= share]
            one = self._queue.more_of(tenant, fits) if even and tenant not in full else None
            if one is None:
                turn = self._queue.take(full, fits)
                if turn is None and not batch:  # nothing is short: what takes long has its turn
                    turn = self._queue.take()
                if turn is None:
                    break
                tenant, one = turn
            if len(one) > few:
                self._hurried = 0
            if not one.answers.done():
                batch.append(one)
                places[tenant] += len(one)
        self._metrics.waiting.set(self._queue.waiting)
        return batch

    def _measure(self, queries: int, seconds: float) -> None:
        self._seconds += 0.1 * (seconds / queries - self._seconds)
        self._metrics.batch_size.observe(queries)
        self._metrics.forward_seconds.observe(seconds)
