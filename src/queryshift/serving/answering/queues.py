"""Who is next: one of each tenant in turn; pieces of work beside the answers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from queryshift.support.priority import is_answering

from ..errors import TooBusy

One = TypeVar("One")
Piece = Callable[[], Any]
NICE = 10  # steps of priority that threads beside the answers give up
PATIENCE = 0.05  # seconds that who only looks waits for a pause in the answers
LOOK = 0.002  # seconds between looks at whether a query is being answered
SECONDS = 1.0  # to twice as many are lately
ALIKE = 4.0  # times as many queries as another's that may wait of a tenant, and they ask alike


class FairQueue(Generic[One]):
    """A queue by tenant, bounded in all and for each; used within one event loop.

    Tenants have their turns one after another, so that one that floods delays others by one.

    Args:
        most: that may wait in all.
        most_of_one: that may wait of one tenant.
        size: for how many one of them counts.

    Example:
        >>> turns = FairQueue[str](most=4, most_of_one=2)
        >>> turns.put("loud", ["a", "b"])
        >>> turns.put("quiet", ["c"])
        >>> [turns.take() for _ in range(3)]
        [('loud', 'a'), ('quiet', 'c'), ('loud', 'b')]
    """

    def __init__(
        self, most: float, most_of_one: int, size: Callable[[One], int] = lambda one: 1
    ) -> None:
        self._most, self._most_of_one, self._size = most, most_of_one, size
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
        count = sum(map(self._size, several))
        self.check_room(tenant, count, seconds_each)
        self._queues.setdefault(tenant, deque()).extend(several)
        self.waiting += count
        self._there.set()

    def check_room(self, tenant: str, count: int, seconds_each: float) -> None:
        """Refuse a tenant for whom there is no room for so many more."""
        bounds = ((self.of(tenant), self._most_of_one), (self.waiting, self._most))
        for waiting, most in bounds:
            if waiting + count > most:
                told = f"{waiting} queries are waiting, and at most {most} may: ask again later."
                raise TooBusy(told, waiting * seconds_each)

    def of(self, tenant: str) -> int:
        """How many wait of a tenant."""
        return sum(map(self._size, self._queues.get(tenant, ())))

    def take(
        self, fits: Callable[[str, One], bool] = lambda tenant, one: True
    ) -> tuple[str, One] | None:
        """The next one and whose it is; None where none waits that fits."""
        if not self._queues:
            self._there.clear()
        for tenant, queue in self._queues.items():
            if fits(tenant, queue[0]):
                self._queues.move_to_end(tenant)
                return tenant, self._popped(tenant)
        return None

    def more_of(
        self, tenant: str, fits: Callable[[str, One], bool] = lambda tenant, one: True
    ) -> One | None:
        """The next one of a tenant, out of turn; None where none waits that fits."""
        queue = self._queues.get(tenant)
        return self._popped(tenant) if queue and fits(tenant, queue[0]) else None

    def forget(self, tenant: str) -> None:
        """Give up what waits of a tenant."""
        self.waiting -= self.of(tenant)
        self._queues.pop(tenant, None)

    def _popped(self, tenant: str) -> One:
        queue = self._queues[tenant]
        one = queue.popleft()
        if not queue:
            del self._queues[tenant]
        self.waiting -= self._size(one)
        return one

    async def some(self) -> None:
        """Return when there may be one."""
        await self._there.wait()


class Demand:
    """How many queries of each tenant waited at once lately, at most.

    What it asked for in a time would not tell: who floods gets no more answers than it has turns.

    Example:
        >>> demand = Demand()
        >>> demand.note("one", 3)
        >>> demand.note("other", 4)
        >>> demand.busy()
        set()
        >>> demand.note("other", 40)
        >>> demand.busy()
        {'other'}
    """

    def __init__(self) -> None:
        self._now = Counter[str]()  # since then
        self._before = Counter[str]()  # in the time before
        self._since = time.monotonic()

    def note(self, tenant: str, waiting: int) -> None:
        """Note how many queries of a tenant wait."""
        self._forget()
        self._now[tenant] = max(waiting, self._now[tenant])

    def busy(self) -> set[str]:
        """The tenants of which many more queries waited than of another."""
        self._forget()
        most = self._before | self._now  # the larger of both numbers
        least = min(most.values(), default=0)
        return {tenant for tenant, waiting in most.items() if waiting > ALIKE * least}

    def _forget(self) -> None:
        now = time.monotonic()
        if (past := now - self._since) > SECONDS:
            self._before = self._now if past <= 2 * SECONDS else Counter()
            self._now, self._since = Counter(), now

    def __len__(self) -> int:
        return len(self._before | self._now)


class WorkQueue:
    """Pieces of work that may wait: files to decode, samples to draw, queries to measure.

    With patience, a piece begins when no query is being answered, or when it has waited long
    enough: under full load there is no pause.

    Args:
        name: of its threads.
        threads: how many.
        waiting: pieces that may wait in all.
        waiting_of_caller: the same, of one caller.
        patience: seconds that a piece waits until no query is being answered.
    """

    def __init__(
        self, name: str, threads: int, waiting: int, waiting_of_caller: int, patience: float = 0
    ) -> None:
        self._threads, self._patience = threads, patience
        self._executor = ThreadPoolExecutor(threads, f"queryshift-{name}", give_way)
        self._queue = FairQueue[tuple[Piece, asyncio.Future[Any]]](waiting, waiting_of_caller)

    async def do(self, caller: str, pieces: Sequence[Piece]) -> list[Any]:
        """What the pieces give; when cancelled, those still waiting are given up."""
        loop = asyncio.get_running_loop()
        waiting = [(piece, loop.create_future()) for piece in pieces]
        if waiting:
            self._queue.put(caller, waiting)
        return list(await asyncio.gather(*(made for _, made in waiting)))

    async def run(self) -> None:
        """Do what waits, until cancelled."""
        await asyncio.gather(*(self._work() for _ in range(self._threads)))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._queue.some()
            if (taken := self._queue.take()) is None:
                continue
            piece, made = taken[1]
            if made.done():
                continue
            await pause(self._patience)
            try:
                told = await loop.run_in_executor(self._executor, piece)
            except Exception as error:  # told to who asked for it
                if not made.done():
                    made.set_exception(error)
            else:
                if not made.done():
                    made.set_result(told)


async def pause(patience: float = PATIENCE) -> None:
    """Return when no query is being answered, or after so many seconds."""
    end = asyncio.get_running_loop().time() + patience
    while is_answering() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK)


def give_way() -> None:
    """Let a thread beside the answers have less of the processor than those that answer."""
    if sys.platform == "linux":  # where it is the thread's own, not its process's
        os.nice(NICE)
