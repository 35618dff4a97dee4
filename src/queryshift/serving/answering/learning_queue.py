"""Learning beside the answers: queries gather by tenant, and groups are learnt one by one."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from queryshift.errors import Error
from queryshift.galleries.hits import Id
from queryshift.sessions.session import Session
from queryshift.support.priority import yield_to_answers, yielding

from ..errors import TooBusy
from ..json_values import iso, plain
from ..metrics import Metrics
from ..settings import QueueSettings
from .queries import Raw, size_of
from .queues import FairQueue

MEASURES = ("shift_score", "spread", "gap", "entropy")  # of a batch
Row = dict[str, Any]
Dropped = Callable[[str], None]
Read = Callable[[Raw], Any]  # a query as the encoder takes it


@dataclass(frozen=True)
class Taught:
    """A query that was answered and is to be learnt.

    Attributes:
        raw: the query as it came, decoded anew when it is learnt: files take less memory.
        item: a vector in its place, where nothing in the encoder is trained.
        exclude: ids that were left out for it.
    """

    raw: Raw | None
    item: Any
    exclude: Sequence[Id]

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return int(self.item.nbytes) if self.raw is None else size_of(self.raw)


Learn = Callable[[str, list[Taught], float], Awaitable[None]]
Group = tuple[list[Taught], float]  # queries that are learnt at once, and since when it is complete


class LearningQueue:
    """Groups of one collection's queries, pure by tenant, waiting to be learnt in turn.

    Each tenant has one group learnt in its turn, however much others send. Where a tenant has too
    many waiting, its oldest is dropped and counted, so that learning never delays answers, never
    falls far behind, and learns from what came last.

    Args:
        size: queries of a group.
        settings: bounds.
        learn: learns one group of a tenant, and is told how many seconds it waited.
        dropped: is told of each group that was given up.
        metrics: what is counted.
    """

    def __init__(
        self, size: int, settings: QueueSettings, learn: Learn, dropped: Dropped, metrics: Metrics
    ) -> None:
        self._size, self._most_bytes = size, settings.gathered_bytes
        self._learn, self._dropped, self._metrics = learn, dropped, metrics
        self._gathering: OrderedDict[str, list[Taught]] = OrderedDict()
        self._bytes = Counter[str]()  # of each tenant's queries that are gathered or wait
        self._all_bytes = 0
        self._queue = FairQueue[Group](math.inf, settings.updates_of_tenant)
        self._current: str | None = None
        self._group: list[Taught] = []  # of the current tenant
        self._idle = asyncio.Event()
        self._idle.set()

    def gather(self, tenant: str, taught: Sequence[Taught]) -> None:
        """Take queries that were answered; complete groups wait to be learnt."""
        for one in taught:
            self._gathering.setdefault(tenant, []).append(one)
            self._hold(tenant, one.size)
            if len(self._gathering[tenant]) >= self._size:
                self._offer(tenant, (self._gathering.pop(tenant), time.monotonic()))
        while self._all_bytes > self._most_bytes:
            self._drop(self._bytes.most_common(1)[0][0])

    def forget(self, tenant: str) -> None:
        """Give up what a tenant has gathered, and its groups that are not being learnt yet."""
        self._gathering.pop(tenant, None)
        self._queue.forget(tenant)
        self._hold(tenant, -self._bytes[tenant])
        if tenant == self._current:
            self._group.clear()  # the learner's thread may be busy elsewhere

    def pending(self, tenant: str) -> int:
        """Queries of a tenant that are gathered, wait or are being learnt."""
        groups = self._queue.of(tenant) + (tenant == self._current)
        return len(self._gathering.get(tenant, ())) + groups * self._size

    async def run(self) -> None:
        """Learn the groups that wait, until cancelled."""
        while True:
            await self._queue.some()
            if (taken := self._queue.take()) is None:
                self._idle.set()
                continue
            self._current, (self._group, complete) = taken
            self._hold(self._current, -_size(self._group))
            try:
                await self._learn(self._current, self._group, time.monotonic() - complete)
            finally:
                self._current = None
                self._metrics.groups_waiting.set(self._queue.waiting)

    async def drained(self) -> None:
        """Return when no complete group waits."""
        await self._idle.wait()

    def _offer(self, tenant: str, group: Group) -> None:
        try:
            self._queue.put(tenant, [group])
        except TooBusy:
            self._drop(tenant)
            self._queue.put(tenant, [group])
        self._metrics.groups_waiting.set(self._queue.waiting)
        self._idle.clear()

    def _drop(self, tenant: str) -> None:
        """Give up a tenant's oldest group; what it has gathered, where none waits."""
        group = self._queue.more_of(tenant)
        taught = self._gathering.pop(tenant, []) if group is None else group[0]
        self._hold(tenant, -_size(taught))
        self._dropped(tenant)

    def _hold(self, tenant: str, more: int) -> None:
        self._bytes[tenant] += more
        self._all_bytes += more
        if not self._bytes[tenant]:
            del self._bytes[tenant]


def _size(taught: Sequence[Taught]) -> int:
    return sum(one.size for one in taught)


def learn_group(session: Session, read: Read, given: Sequence[Taught]) -> Row | None:
    """Adapt a session to a group, pausing while queries are answered; its statistics.

    None where the group was emptied.
    """
    group = list(given)  # at once: it may be given up until now
    if not group:
        return None
    with yielding():
        items = [_item(one, read) for one in group]
        exclude = [list(one.exclude) for one in group]
        asked = exclude if any(exclude) else None
        answer = session.answer(items, exclude=asked, on_bad="skip", missing="ignore")
        agreement = _agreement(answer)
    stats = session.stats()
    return {
        "time": iso(time.time()),
        "queries": stats.queries,
        **{name: plain(getattr(stats, name)) for name in MEASURES},
        "strangeness": plain(stats.shift_score),  # its former name
        "agreement": agreement,
        "updated": stats.adapted,
        "guard": stats.restart,
    }


def _item(one: Taught, read: Read) -> Any:
    yield_to_answers()
    return one.item if one.raw is None else read(one.raw)


@torch.no_grad()
def _agreement(answer: Any) -> float | None:
    """The share of first places that source and adapted answers have in common."""
    try:
        same = answer.top(1).positions == answer.source.top(1).positions
        return float(same.float().mean())
    except Error:
        return None
