"""Who is next: one of each tenant in turn, so that a flooding one delays others by one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from .refusals import TooBusy
from .settings import QueueSettings

One = TypeVar("One")


class Turns(Generic[One]):
    """A queue by tenant, bounded in all and for each; used within one event loop.

    Args:
        settings: its bounds.

    Example:
        >>> turns = Turns[str](QueueSettings())
        >>> turns.put("loud", ["a", "b"])
        >>> turns.put("quiet", ["c"])
        >>> [turns.take() for _ in range(3)]
        ['a', 'c', 'b']
    """

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._queues: OrderedDict[str, deque[One]] = OrderedDict()
        self._there = asyncio.Event()
        self.waiting = 0

    def put(self, tenant: str, several: Sequence[One], seconds_each: float = 0.01) -> None:
        """Add what a tenant wants, or refuse all of it where that is too much.

        Args:
            tenant: who wants it.
            several: what it wants.
            seconds_each: how long one takes: says when it is worth asking again.
        """
        own = len(self._queues.get(tenant, ()))
        settings = self._settings
        for waiting, most in ((own, settings.waiting_of_tenant), (self.waiting, settings.waiting)):
            if waiting + len(several) > most:
                raise TooBusy(
                    f"{waiting} queries are waiting, and at most {most} may: ask again later.",
                    waiting * seconds_each,
                )
        self._queues.setdefault(tenant, deque()).extend(several)
        self.waiting += len(several)
        self._there.set()

    def take(self) -> One | None:
        """The next one; None where none waits."""
        if not self._queues:
            self._there.clear()
            return None
        tenant, queue = self._queues.popitem(last=False)
        one = queue.popleft()
        if queue:
            self._queues[tenant] = queue
        self.waiting -= 1
        return one

    async def some(self) -> None:
        """Return when there may be one."""
        await self._there.wait()
