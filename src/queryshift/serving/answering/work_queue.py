"""Work beside the answers: callers' pieces in turn, in threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from queryshift.support.priority import is_answering

from .fair_queue import FairQueue

Piece = Callable[[], Any]
LOOK = 0.002  # seconds between looks at whether a query is being answered


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
        self._executor, self._threads = ThreadPoolExecutor(threads, f"queryshift-{name}"), threads
        self._patience = patience
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
            await self._pause()
            try:
                told = await loop.run_in_executor(self._executor, piece)
            except Exception as error:  # told to who asked for it
                if not made.done():
                    made.set_exception(error)
            else:
                if not made.done():
                    made.set_result(told)

    async def _pause(self) -> None:
        """Return when nobody waits for an answer, or has for long enough."""
        end = asyncio.get_running_loop().time() + self._patience
        while is_answering() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(LOOK)
