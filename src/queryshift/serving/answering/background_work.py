"""Work beside the answers: what is only looked at is made piece by piece, while no query waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .fair_queue import FairQueue

Piece = Callable[[], Any]
WAITING, WAITING_OF_CALLER = 2048, 512  # pieces
PATIENCE, LOOK = 0.05, 0.002  # seconds that a piece waits for a pause, and between looks


class BackgroundWork:
    """One thread for all that is neither answered nor learnt: callers' pieces in turn.

    A piece begins when no query is being answered, or when it has waited long enough: under full
    load there is no pause.

    Args:
        busy: whether queries are being answered.
    """

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy, self._thread = busy, ThreadPoolExecutor(1, "queryshift-beside")
        self._queue = FairQueue[tuple[Piece, asyncio.Future[Any]]](WAITING, WAITING_OF_CALLER)

    async def do(self, caller: str, pieces: Sequence[Piece]) -> list[Any]:
        """What the pieces give; when cancelled, those still waiting are given up."""
        loop = asyncio.get_running_loop()
        waiting = [(piece, loop.create_future()) for piece in pieces]
        if waiting:
            self._queue.put(caller, waiting)
        return list(await asyncio.gather(*(made for _, made in waiting)))

    async def run(self) -> None:
        """Do what waits, until cancelled."""
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
                told = await loop.run_in_executor(self._thread, piece)
            except Exception as error:  # told to who asked for it
                if not made.done():
                    made.set_exception(error)
            else:
                if not made.done():
                    made.set_result(told)

    async def _pause(self) -> None:
        """Return when nobody waits for an answer, or has for long enough."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while self._busy() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(LOOK)
