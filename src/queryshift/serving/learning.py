"""Learning beside the answers: queries gather by tenant, and groups are learnt one by one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .learn_group import Taught
from .metrics import Metrics
from .settings import QueueSettings

Learn = Callable[[str, list[Taught]], Awaitable[None]]
Dropped = Callable[[str], None]


@dataclass(eq=False)
class _Gathering:
    """What a tenant has gathered."""

    taught: list[Taught]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.taught)


class Learning:
    """Groups of one collection's queries, pure by tenant, waiting to be learnt.

    A tenant has one group waiting or being learnt at most; another that is complete by then is
    dropped and counted, so that learning never delays answers and never falls behind.

    Args:
        size: queries of a group.
        settings: bounds.
        learn: learns one group of a tenant.
        dropped: is told of each group that was given up.
        metrics: what is counted.
    """

    def __init__(
        self,
        size: int,
        settings: QueueSettings,
        learn: Learn,
        dropped: Dropped,
        metrics: Metrics,
    ) -> None:
        self._size, self._settings = size, settings
        self._learn, self._dropped, self._metrics = learn, dropped, metrics
        self._gathering: OrderedDict[str, _Gathering] = OrderedDict()
        self._bytes = 0
        self._groups: OrderedDict[str, list[Taught]] = OrderedDict()
        self._current: str | None = None
        self._there = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def gather(self, tenant: str, taught: Sequence[Taught]) -> None:
        """Take queries that were answered; complete groups wait to be learnt."""
        gathering = self._gathering.setdefault(tenant, _Gathering([]))
        for one in taught:
            gathering.taught.append(one)
            self._bytes += one.size
            if len(gathering.taught) >= self._size:
                self._offer(tenant, self._taken(tenant, gathering))
        self._gathering.move_to_end(tenant)
        while self._bytes > self._settings.gathered_bytes and self._gathering:
            oldest, given_up = next(iter(self._gathering.items()))
            self._forget_gathering(oldest, given_up)
            self._dropped(oldest)

    def forget(self, tenant: str) -> None:
        """Give up what a tenant has gathered and what waits to be learnt of it."""
        if (gathering := self._gathering.get(tenant)) is not None:
            self._forget_gathering(tenant, gathering)
        self._groups.pop(tenant, None)

    def pending(self, tenant: str) -> int:
        """Queries of a tenant that are gathered, wait or are being learnt."""
        gathering = self._gathering.get(tenant)
        waiting = len(self._groups.get(tenant, ()))
        running = self._size if tenant == self._current else 0
        return (0 if gathering is None else len(gathering.taught)) + waiting + running

    async def run(self) -> None:
        """Learn the groups that wait, until cancelled."""
        while True:
            await self._there.wait()
            if not self._groups:
                self._there.clear()
                self._idle.set()
                continue
            self._current, group = self._groups.popitem(last=False)
            try:
                await self._learn(self._current, group)
            finally:
                self._current = None
                self._metrics.groups_waiting.set(len(self._groups))

    async def drained(self) -> None:
        """Return when no complete group waits."""
        await self._idle.wait()

    def _offer(self, tenant: str, group: list[Taught]) -> None:
        behind = tenant in self._groups or tenant == self._current
        if behind or len(self._groups) >= self._settings.updates:
            self._dropped(tenant)
            return
        self._groups[tenant] = group
        self._metrics.groups_waiting.set(len(self._groups))
        self._idle.clear()
        self._there.set()

    def _taken(self, tenant: str, gathering: _Gathering) -> list[Taught]:
        group, gathering.taught = gathering.taught, []
        self._bytes -= sum(one.size for one in group)
        return group

    def _forget_gathering(self, tenant: str, gathering: _Gathering) -> None:
        self._taken(tenant, gathering)
        del self._gathering[tenant]
