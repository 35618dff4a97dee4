"""A search: queries decoded, answered in turn, counted, and handed on to be learnt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.sessions.session import Session

from ..collection import Collection
from ..errors import NotFound, problem
from ..json_values import iso
from ..runtime import Runtime
from ..settings import Mode
from ..tenant import Tenant
from ..tenant_cache import TenantCache
from .answers import Answered, AnswerQueue, Asked
from .learning_queue import LearningQueue, Taught, learn_group
from .queries import Decoder, Raw, Readable

logger = logging.getLogger("queryshift.serving")


@dataclass(frozen=True)
class SearchRequest:
    """A search.

    Attributes:
        tenant: whose session answers.
        request_id: by which feedback finds the answers again.
        queries: as they came; one that could not be read is the sentence that says why.
        count: hits per query.
        adapt: whether the tenant learns from them.
        exclude: ids to leave out, for each query.
        compare: whether both answers are wanted, in any mode.
        trial: whether nothing of it is counted or kept.
    """

    tenant: str
    request_id: str
    queries: Sequence[Raw]
    count: int
    adapt: bool
    exclude: Sequence[Sequence[Id]]
    compare: bool = False
    trial: bool = False


class Search:
    """Answers and learns for the tenants of one collection, in one event loop.

    Args:
        collection: the model, candidates and method; another one may be put in its place.
        runtime: what the process has.
    """

    def __init__(self, collection: Collection, runtime: Runtime) -> None:
        self.collection, self.runtime, self.metrics = collection, runtime, runtime.metrics

        def current() -> Collection:
            return self.collection

        queues = runtime.settings.queues
        self.cache = TenantCache(current, runtime, lambda name: self.learning.forget(name))
        self.decoder = Decoder(collection, runtime.decoding)
        self.answering = AnswerQueue(current, runtime.model, queues, self.metrics)
        learns = (self._learn, self._dropped, self.metrics)
        self.learning = LearningQueue(collection.settings.gather, queues, *learns)

    async def run(self) -> None:
        """Answer and learn what waits, until cancelled."""
        await asyncio.gather(self.answering.run(), self.learning.run())

    async def search(self, call: SearchRequest) -> dict[str, Any]:
        """Answer queries; learn from them afterwards, if they are to be learnt from.

        When it is cancelled, because the client is gone, nothing is answered or learnt.
        """
        self.answering.check_room(call.tenant, len(call.queries))
        if call.trial:
            return await self._tried(call)
        async with self.cache.using(call.tenant, create=True) as tenant:
            read = await self.decoder.decode(call.tenant, call.queries)
            mode, session = tenant.record.mode, tenant.session  # as they are when it is asked
            answers = await self._answered(call, read, mode, session)
            may = self.cache.holds(tenant) and "frozen" not in (mode, tenant.record.mode)
            learns = call.adapt and may
            self._count(tenant, mode, answers)
            if learns:
                self.learning.gather(call.tenant, self._taught(call, answers))
            self._remember(tenant, call, read, answers)
            return self._told(call, mode, answers, learns)

    async def _tried(self, call: SearchRequest) -> dict[str, Any]:
        """Answers that leave no trace; a tenant that is not there yet has learnt nothing."""
        read = await self.decoder.decode(call.tenant, call.queries)
        try:
            async with self.cache.using(call.tenant) as tenant:
                mode = tenant.record.mode
                answers = await self._answered(call, read, mode, tenant.session)
        except NotFound:
            mode = self.collection.settings.mode
            found = await self._answered(call, read, "frozen", None)
            answers = [replace(one, adapted=one.source) for one in found]
        return self._told(call, mode, answers, learns=False)

    def _told(
        self, call: SearchRequest, mode: Mode, answers: Sequence[Answered], learns: bool
    ) -> dict[str, Any]:
        return {
            "request_id": call.request_id,
            "collection": self.collection.name,
            "tenant": call.tenant,
            "mode": mode,
            "answers": [_told(mode, answer, call.compare) for answer in answers],
            "adapt": learns,
        }

    async def _answered(
        self, call: SearchRequest, read: Sequence[Readable], mode: Mode, session: Session | None
    ) -> list[Answered]:
        """The answers to the queries that could be read; of the others, why not."""
        both = call.compare or self.collection.settings.keep_queries > 0
        adapted = session if call.compare or mode != "frozen" else None
        good = [place for place, one in enumerate(read) if one.error is None]
        items, exclude = [read[one].item for one in good], [call.exclude[one] for one in good]
        asked = Asked(items, exclude, call.count, adapted, source=both or mode != "live")
        found = iter(await self.answering.answer(call.tenant, asked) if good else [])
        answers = [next(found) if one.error is None else Answered(error=one.error) for one in read]
        if all(answer.error is not None for answer in answers):
            raise answers[0].error or BadInput("no query could be answered.")
        return answers

    def _taught(self, call: SearchRequest, answers: Sequence[Answered]) -> list[Taught]:
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
        tenant.answered_by = answers[-1].by
        tenant.changed()
        self.metrics.queries.labels(self.collection.name, mode).inc(answered)

    def _remember(
        self, tenant: Tenant, call: SearchRequest, read: Sequence[Readable], answers: list[Answered]
    ) -> None:
        """Keep both answers for feedback, and the queries where that is allowed."""
        if any(answer.source and answer.adapted for answer in answers):
            most = self.runtime.settings.tenants.feedback_requests
            tenant.answers.remember(call.request_id, answers, most)
        named = {"time": iso(time.time()), "request_id": call.request_id}
        for one, found in zip(read, answers, strict=True):
            if one.shown is not None:
                tenant.latest.append({**named, "query": one.shown, **found.both(), "by": found.by})

    async def _learn(self, name: str, group: list[Taught], waited: float) -> None:
        """Learn one group of a tenant, in the learner's thread."""
        collection = self.collection
        started, busy = time.perf_counter(), self.answering.busy
        try:
            async with self.cache.using(name) as tenant:
                if not await self.cache.may_learn(tenant):
                    return
                work = (tenant.session, self.decoder.item, group)
                learnt = await self.cache.change(tenant, learn_group, *work)
                if learnt is None:
                    return
                row = tenant.add_row(learnt, waited + time.perf_counter() - started)
                while tenant.news:
                    kind = tenant.news.popleft()
                    self.metrics.guard_events.labels(collection.name, kind).inc()
                await self.cache.save_if_shared(tenant)
        except Exception as error:  # the session is as before it
            self._failed(name, error)
            return
        self.metrics.update_seconds.observe(time.perf_counter() - started)
        self.metrics.learning_delay.observe(row["delay"])
        self.metrics.updates.labels(collection.name).inc(learnt["updated"])
        if row["shift_score"] is not None:
            self.metrics.shift_score.labels(collection.name).observe(row["shift_score"])
        if busy and self.answering.busy:  # under load learning has its share of the time, no more
            share = self.runtime.settings.queues.learning_share
            await asyncio.sleep((time.perf_counter() - started) * (1 - share) / share)

    def _failed(self, name: str, error: Exception) -> None:
        """Count a group that was not learnt, and tell its tenant why."""
        self.metrics.failed_updates.labels(self.collection.name).inc()
        logger.error("a group was not learnt", exc_info=error, extra={"tenant": name})
        if (tenant := self.cache.loaded.get(name)) is not None:
            tenant.record.add_event("failed", problem(error)["detail"], time.time())
            tenant.changed()

    def _dropped(self, name: str) -> None:
        self.metrics.drops.labels(self.collection.name).inc()
        if (tenant := self.cache.loaded.get(name)) is not None:
            tenant.record.drops += 1
            tenant.changed()


def _told(mode: str, answer: Answered, compare: bool) -> dict[str, Any]:
    """One query's answer as clients get it; the adapted one beside it where both are wanted."""
    if answer.error is not None:
        return {"hits": [], "source": None, "by": None, "error": problem(answer.error)}
    live = mode == "live"
    told = {
        "hits": answer.adapted if live else answer.source,
        "source": answer.source,
        "by": answer.by if live or compare else "source",
        "error": None,
    }
    return told | {"adapted": answer.adapted} if compare else told
