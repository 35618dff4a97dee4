"""Answers: queries of all tenants wait in turn, and are answered in one forward."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from queryshift.errors import EngineLost, Error
from queryshift.galleries.exclusions import known_exclusions
from queryshift.galleries.hits import Id
from queryshift.retrieval.answer import Answer, FusedRanking
from queryshift.retrieval.hubness.hub_correction import HubRanking
from queryshift.sessions.batched import answer_many
from queryshift.sessions.session import Session
from queryshift.support.priority import answering

from ..collection import Collection, Current
from ..metrics import Metrics
from ..settings import QueueSettings
from .queues import Demand, FairQueue

logger = logging.getLogger("queryshift.serving")
FIRST_GUESS = 0.01  # seconds per query, before any was answered
TOGETHER = 4  # queries of a request: others wait for so many, however large it is
HURRIED = 3  # batches in a row without busy tenants, before they have their turn
Hit: TypeAlias = dict[str, Any]  # {"id": ..., "score": ...}
By = Literal["source", "adapted", "both"]
Value = TypeVar("Value")
PLACES = 20  # of an answer that are remembered: a click further down says next to nothing
TOP = 10  # places that do not depend on the batch
NEAR = 1e-5  # between similarities; the batch changes them by a tenth of it


@dataclass(frozen=True)
class Asked:
    """Queries of one request that are answered together, and which answers are wanted.

    Attributes:
        items: the queries, as the encoder takes them.
        exclude: ids to leave out, for each.
        count: hits that are wanted.
        session: gives the adapted answers; None: they are not wanted.
        source: whether the source's answers are wanted.
    """

    items: Sequence[Any]
    exclude: Sequence[Sequence[Id]]
    count: int
    session: Session | None
    source: bool

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> Asked:
        return replace(self, items=self.items[part], exclude=self.exclude[part])


@dataclass(frozen=True)
class Answered:
    """The answers to one query, or why there is none.

    Attributes:
        adapted: hits by what was learnt, if asked for.
        source: hits by the source model, if asked for.
        item: the query as its session learns it: a vector where nothing in the encoder is trained.
        by: who gave the adapted answer: "adapted", "both" models, or the "source" alone.
        error: what went wrong.
    """

    adapted: list[Hit] | None = None
    source: list[Hit] | None = None
    item: Any = None
    by: By = "source"
    error: Exception | None = field(default=None, compare=False)

    def both(self) -> dict[str, list[Hit]]:
        """The first places of both answers, as they are remembered."""
        return {"source": (self.source or [])[:PLACES], "adapted": (self.adapted or [])[:PLACES]}


Rows: TypeAlias = list[list[Answered]]  # of each request, of each of its queries


@dataclass(eq=False)
class _Waiting:
    """Queries of a request in the queue, and who waits for their answers."""

    asked: Asked
    answers: asyncio.Future[list[Answered]]

    def __len__(self) -> int:
        return len(self.asked)


class AnswerQueue:
    """The queue before one collection's model; all of it runs in the event loop but the forward.

    Each batch takes what is there: nobody waits for company. It has many queries of a few tenants,
    since what is done once for a tenant is then done once for many.
    Where some tenants are busy, the others come first and by themselves, and a batch of busy ones
    is small: who asks for little waits for one small batch.
    Queries of one request are answered four at a time, whatever the load: a session judges queries
    by those that come with them.

    Args:
        collection: gives the collection as it is now.
        model: the thread that runs the model.
        settings: bounds of the queue.
        metrics: what is counted.
    """

    def __init__(
        self, collection: Current, model: Executor, settings: QueueSettings, metrics: Metrics
    ) -> None:
        self._collection, self._model = collection, model
        self._settings, self._metrics = settings, metrics
        self._queue = FairQueue[_Waiting](settings.waiting, settings.waiting_of_tenant, len)
        self._seconds = FIRST_GUESS
        self._asked = Demand()
        self._hurried = 0  # batches in a row without busy tenants

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
        self._asked.note(tenant, self._queue.of(tenant))
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
        """The next batch: of tenants that are not busy; where none waits, of busy ones."""
        busy, few = self._asked.busy(), self._settings.batch_of_tenant
        turns = [(False, self._settings.batch), (True, few)]
        if self._hurried >= HURRIED:
            turns.reverse()
        for of_busy, most in turns:
            if batch := self._taken(busy, of_busy, most):
                self._hurried = 0 if of_busy or not busy else self._hurried + 1
                break
        self._metrics.waiting.set(self._queue.waiting)
        return batch

    def _taken(self, busy: Set[str], of_busy: bool, most: int) -> list[_Waiting]:
        """What waits of busy tenants, or of the others, without what was given up.

        At most so many queries, or one request that is larger.
        """
        batch: list[_Waiting] = []
        places, tenant = Counter[str](), ""
        share = max(self._settings.batch_of_tenant, most // min(2, len(self._asked) or 1))

        def fits(name: str, one: _Waiting) -> bool:
            room = not batch or len(one) <= most - places.total()
            return room and places[name] < share and (name in busy) == of_busy

        while True:
            one = self._queue.more_of(tenant, fits)
            if one is None:
                if (turn := self._queue.take(fits)) is None:
                    return batch
                tenant, one = turn
            if not one.answers.done():
                batch.append(one)
                places[tenant] += len(one)

    def _measure(self, queries: int, seconds: float) -> None:
        self._seconds += 0.1 * (seconds / queries - self._seconds)
        self._metrics.batch_size.observe(queries)
        self._metrics.forward_seconds.observe(seconds)


def answer_rows(collection: Collection, asked: Sequence[Asked]) -> Rows:
    """The answers to a batch; where it fails as a whole, each query is answered by itself.

    A request's top ten are the same whoever else is in its batch. Sums of other sizes are rounded
    otherwise, so where two of its scores are too near to tell, it is answered in a batch of its
    own.
    """
    with answering():
        try:
            rows, too_near = _together(collection, asked)
            for place in too_near if len(asked) > 1 else ():
                rows[place] = _together(collection, [asked[place]])[0][0]
            return rows
        except (Error, RuntimeError):
            each = ([one[row : row + 1] for row in range(len(one))] for one in asked)
            return [[_alone(collection, one) for one in queries] for queries in each]


def _together(collection: Collection, asked: Sequence[Asked]) -> tuple[Rows, set[int]]:
    """The answers to each of several requests, and which have scores that are too near to tell."""
    counts = [len(one) for one in asked]
    items = _split(collection.items([item for one in asked for item in one.items]), counts)
    exclude = _split(_exclusions(collection, asked), counts)
    sourced = [place for place, one in enumerate(asked) if one.source]
    groups = [(collection.source, sourced)] if sourced else []
    groups += [(one.session, [place]) for place, one in enumerate(asked) if one.session]
    answers = answer_many(
        [session for session, _ in groups],
        [_joined(items, places) for _, places in groups],
        [_joined(exclude, places) for _, places in groups] if any(map(any, exclude)) else None,
        hits=max(one.count for one in asked) + 1,
    )
    kept = [part if collection.encodes_first else [None] * len(part) for part in items]
    rows, too_near = [[Answered(item=item) for item in part] for part in kept], set[int]()
    for (session, places), answer in zip(groups, answers, strict=True):
        found = answer.top(max(asked[place].count for place in places) + 1)
        near = _too_near(answer, found.scores).tolist()
        each = zip(found.ids, found.scores.tolist(), near, strict=True)
        for place in places:
            for row, before in enumerate(rows[place]):
                ids, scores, close = next(each)
                hits = _hits(ids, scores, asked[place].count)
                if session is collection.source:
                    rows[place][row] = replace(before, source=hits)
                else:
                    rows[place][row] = replace(before, adapted=hits, by=_by(session, answer))
                if close:
                    too_near.add(place)
    return rows, too_near


def _alone(collection: Collection, one: Asked) -> Answered:
    """One query's answers; each model's by itself, where they cannot be asked together.

    The source's stands for one that its session cannot give.
    """
    found = _by_itself(collection, one)
    if found.error is None or one.session is None or isinstance(found.error, EngineLost):
        return found
    source = _by_itself(collection, replace(one, session=None, source=True))
    if source.error is not None:
        return source
    adapted = _by_itself(collection, replace(one, source=False))
    if adapted.error is not None:
        logger.warning("the source answers for a session: %s", adapted.error)
        adapted = replace(source, adapted=source.source)
    return replace(adapted, source=source.source if one.source else None)


def _by_itself(collection: Collection, one: Asked) -> Answered:
    try:
        return _together(collection, [one])[0][0][0]
    except (Error, RuntimeError) as error:
        return Answered(error=error)


def _by(session: Session, answer: Answer) -> By:
    """Who gave a session's answer; hub correction belongs to the adapted model."""
    if isinstance(answer.ranking, FusedRanking):
        return "both"
    learnt = session.state.adapted.updates > 0 and session.settings.guard is None
    return "adapted" if learnt or isinstance(answer.ranking, HubRanking) else "source"


def _exclusions(collection: Collection, asked: Sequence[Asked]) -> list[list[Id]]:
    """What each query leaves out, without ids that no candidate has: deleted ones are normal."""
    given = [list(ids) for one in asked for ids in one.exclude]
    if not any(given):
        return given
    known = known_exclusions([(None, ids) for ids in given], collection.gallery, "ignore")
    return [list(ids or []) for _, ids in known]  # type: ignore[arg-type]


def _too_near(answer: Answer, scores: Tensor) -> Tensor:
    """Whether two of a row's first scores are as good as the same.

    Scores of both models' mixture are probabilities, large and tiny ones: what the batch changes
    of similarities, divided by the temperature, is the part that it changes of them.
    """
    first = scores[:, : TOP + 1]
    margin = torch.full_like(first[:, :-1], NEAR)
    if isinstance(answer.ranking, FusedRanking):
        margin *= first[:, :-1] / answer.ranking.temperature.to(first)
    return ((first[:, :-1] - first[:, 1:]) <= margin).any(dim=1)


def _split(rows: Sequence[Value], counts: Sequence[int]) -> list[Sequence[Value]]:
    """Rows of all requests as those of each."""
    return [rows[start:end] for start, end in pairwise(accumulate(counts, initial=0))]


def _joined(rows: Sequence[Sequence[Value]], places: Iterable[int]) -> list[Value]:
    return [one for place in places for one in rows[place]]


def _hits(ids: Sequence[Id], scores: Sequence[float], count: int) -> list[Hit]:
    best = zip(ids[:count], scores[:count], strict=True)
    return [{"id": id, "score": round(score, 6)} for id, score in best]
