"""A search: queries decoded, answered in turn, counted, and handed on to be learnt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from queryshift.errors import Error

from .answer_rows import Answered, Asked
from .answering import Answering
from .calls import SearchCall
from .collection import Collection
from .disk import Disk
from .learn_group import Taught, learn_group
from .learning import Learning
from .metrics import Metrics
from .problems import problem
from .queries import Raw, decoded, shown
from .residents import Residents
from .settings import ServeSettings
from .tenant import Tenant, iso

logger = logging.getLogger("queryshift.serving")


@dataclass(frozen=True)
class Threads:
    """Who computes: one thread answers, one learns, a few decode."""

    model: Executor
    learner: Executor
    decoders: Executor


class Searching:
    """Answers and learns for the tenants of one collection, in one event loop.

    Args:
        collection: the model, candidates and method.
        folder: where the collection's tenants are written.
        settings: of the server.
        threads: who computes.
        disk: writes.
        metrics: what is counted.
    """

    def __init__(
        self,
        collection: Collection,
        folder: Path,
        settings: ServeSettings,
        threads: Threads,
        disk: Disk,
        metrics: Metrics,
    ) -> None:
        self.collection, self.threads, self.metrics = collection, threads, metrics
        current = partial(getattr, self, "collection")
        self.residents = Residents(current, folder / "tenants", settings.tenants, disk, metrics)
        self.answering = Answering(current, threads.model, settings.queues, metrics)
        self.learning = Learning(
            collection.settings.gather, settings.queues, self._learn, self._dropped, metrics
        )

    async def search(self, call: SearchCall) -> dict[str, Any]:
        """Answer queries; learn from them afterwards, if they are to be learnt from.

        When it is cancelled, because the client is gone, nothing is answered or learnt.
        """
        async with self.residents.using(call.tenant, create=True) as tenant:
            mode, keeps = tenant.record.mode, self.collection.settings.keep_queries > 0
            items = await self._decoded(call.queries)
            asked = [
                Asked(
                    item,
                    exclude,
                    call.count,
                    tenant.session if mode != "frozen" else None,
                    source=mode != "live" or keeps,
                )
                for item, exclude in zip(items, call.exclude, strict=True)
                if not isinstance(item, Error)
            ]
            found = iter(await self.answering.answer(call.tenant, asked) if asked else [])
            answers = [
                Answered(error=item) if isinstance(item, Error) else next(found) for item in items
            ]
            learns = call.adapt and mode != "frozen"
            self._count(tenant, mode, answers)
            if learns:
                self.learning.gather(call.tenant, self._taught(call, answers))
            self._remember(tenant, call, answers)
            return {
                "request_id": call.request_id,
                "collection": self.collection.name,
                "tenant": call.tenant,
                "mode": mode,
                "answers": [self._told(mode, answer) for answer in answers],
                "adapt": learns,
            }

    async def _decoded(self, queries: Sequence[Raw]) -> list[Any]:
        """The queries as the encoder takes them, or what is wrong with each."""
        modality = self.collection.modality
        if modality in ("text", "vector"):
            return [_readable(raw, modality) for raw in queries]
        loop, decoders = asyncio.get_running_loop(), self.threads.decoders
        work = (loop.run_in_executor(decoders, _readable, raw, modality) for raw in queries)
        return list(await asyncio.gather(*work))

    def _taught(self, call: SearchCall, answers: Sequence[Answered]) -> list[Taught]:
        """The queries that were answered, as they are learnt."""
        return [
            Taught(None if self.collection.encodes_first else raw, answer.item, exclude)
            for raw, exclude, answer in zip(call.queries, call.exclude, answers, strict=True)
            if answer.error is None
        ]

    def _count(self, tenant: Tenant, mode: str, answers: Sequence[Answered]) -> None:
        answered = sum(answer.error is None for answer in answers)
        tenant.record.queries += answered
        tenant.record.last_seen = time.time()
        tenant.changed()
        self.metrics.queries.labels(self.collection.name, mode).inc(answered)

    def _remember(self, tenant: Tenant, call: SearchCall, answers: Sequence[Answered]) -> None:
        """Keep the ids of both answers for feedback, and the queries where that is allowed."""
        both = [answer for answer in answers if answer.source and answer.adapted]
        if not both:
            return
        kept = [{"source": answer.source, "adapted": answer.adapted} for answer in answers]
        tenant.remember(call.request_id, kept)  # type: ignore[arg-type]
        if self.collection.settings.keep_queries:
            now, modality = iso(time.time()), self.collection.modality
            for raw, hits, answer in zip(call.queries, kept, answers, strict=True):
                if answer.error is None:
                    tenant.keep_query(
                        {
                            "time": now,
                            "request_id": call.request_id,
                            "query": shown(raw, modality),
                            **hits,
                        }
                    )

    def _told(self, mode: str, answer: Answered) -> dict[str, Any]:
        """One query's answer as clients get it."""
        if answer.error is not None:
            return {"hits": [], "source": None, "error": problem(answer.error)}
        hits = answer.adapted if mode == "live" else answer.source
        return {"hits": hits, "source": answer.source, "error": None}

    async def _learn(self, name: str, group: list[Taught]) -> None:
        """Learn one group of a tenant, in the learner's thread."""
        loop, collection = asyncio.get_running_loop(), self.collection
        started = time.perf_counter()
        try:
            async with self.residents.using(name) as tenant:
                resets = tenant.record.resets
                work = (tenant.session, collection.modality, group)
                learnt = await loop.run_in_executor(self.threads.learner, learn_group, *work)
                record = tenant.record
                record.batches += 1
                record.updates += learnt.updated
                row = {"batch": record.batches, **learnt.row, "dropped": record.drops}
                tenant.add_row(row)
                if record.resets > resets:
                    self.metrics.guard_events.labels(collection.name, "reset").inc()
        except Error as error:  # the session is as before it
            self.metrics.failed_updates.labels(collection.name).inc()
            logger.warning("a group was not learnt: %s", error, extra={"tenant": name})
            return
        self.metrics.update_seconds.observe(time.perf_counter() - started)
        self.metrics.updates.labels(collection.name).inc(learnt.updated)
        if row["strangeness"] is not None:
            self.metrics.strangeness.labels(collection.name).observe(row["strangeness"])

    def _dropped(self, name: str) -> None:
        self.metrics.drops.labels(self.collection.name).inc()
        if (tenant := self.residents.loaded.get(name)) is not None:
            tenant.record.drops += 1


def _readable(raw: Raw, modality: str) -> Any:
    """A query as an encoder takes it, or the error that says why not."""
    try:
        return decoded(raw, modality)
    except Error as error:
        return error
