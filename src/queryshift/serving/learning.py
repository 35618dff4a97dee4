"""Learning beside the answers: queries gather by tenant, and groups are learnt one by one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from .learn_group import Taught
from .metrics import Metrics
from .refusals import TooBusy
from .settings import QueueSettings
from .turns import Turns

Learn = Callable[[str, list[Taught]], Awaitable[None]]
Dropped = Callable[[str], None]


class Learning:
    """Groups of one collection's queries, pure by tenant, waiting to be learnt in turn.

    A group that is complete when its tenant has too many waiting is dropped and counted, so that
    learning never delays answers and never falls far behind.

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
        self._size, self._most_bytes = size, settings.gathered_bytes
        self._learn, self._dropped, self._metrics = learn, dropped, metrics
        self._gathering: OrderedDict[str, list[Taught]] = OrderedDict()
        self._bytes = 0  # of what is gathering
        self._turns = Turns[list[Taught]](settings.updates, settings.updates_of_tenant)
        self._current: str | None = None
        self._group: list[Taught] = []  # of the current tenant
        self._idle = asyncio.Event()
        self._idle.set()

    def gather(self, tenant: str, taught: Sequence[Taught]) -> None:
        """Take queries that were answered; complete groups wait to be learnt."""
        for one in taught:
            self._gathering.setdefault(tenant, []).append(one)
            self._bytes += one.size
            if len(self._gathering[tenant]) >= self._size:
                self._offer(tenant, self._taken(tenant))
        if tenant in self._gathering:
            self._gathering.move_to_end(tenant)
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._gathering))
            self._taken(oldest)
            self._dropped(oldest)

    def forget(self, tenant: str) -> None:
        """Give up what a tenant has gathered, and its groups that are not being learnt yet."""
        self._taken(tenant)
        self._turns.forget(tenant)
        if tenant == self._current:
            self._group.clear()  # the learner's thread may be busy elsewhere

    def pending(self, tenant: str) -> int:
        """Queries of a tenant that are gathered, wait or are being learnt."""
        groups = self._turns.of(tenant) + (tenant == self._current)
        return len(self._gathering.get(tenant, ())) + groups * self._size

    async def run(self) -> None:
        """Learn the groups that wait, until cancelled."""
        while True:
            await self._turns.some()
            if (taken := self._turns.take()) is None:
                self._idle.set()
                continue
            self._current, self._group = taken
            try:
                await self._learn(self._current, self._group)
            finally:
                self._current = None
                self._metrics.groups_waiting.set(self._turns.waiting)

    async def drained(self) -> None:
        """Return when no complete group waits."""
        await self._idle.wait()

    def _offer(self, tenant: str, group: list[Taught]) -> None:
        try:
            self._turns.put(tenant, [group])
        except TooBusy:
            self._dropped(tenant)
            return
        self._metrics.groups_waiting.set(self._turns.waiting)
        self._idle.clear()

    def _taken(self, tenant: str) -> list[Taught]:
        """What a tenant has gathered, which gathers no longer."""
        group = self._gathering.pop(tenant, [])
        self._bytes -= sum(one.size for one in group)
        return group
