"""Queries read beside the answers: decoded in threads of their own, each or why not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from queryshift.errors import BadFile, Error
from queryshift.media.pictures import picture_size

from ..settings import QueueSettings
from .fair_queue import FairQueue
from .queries import Raw, decoded, shown

AT_ONCE = ("text", "vector")  # kinds that need no thread to be read
SMALL_FILE = 2**14  # bytes, and
SMALL_PICTURE = 2**16  # pixels: decoded in less time than a thread takes to wake up
DECODERS = max(1, (os.cpu_count() or 2) // 2)  # the other cores answer and learn


@dataclass(frozen=True)
class Readable:
    """A query as an encoder takes it, or the error that says why it cannot be read.

    Attributes:
        item: the query.
        shown: as it is kept to be looked at, if it is to be kept.
        error: what is wrong with it.
    """

    item: Any = None
    shown: dict[str, Any] | None = None
    error: Error | None = None


class Decoding:
    """Reads the queries of one collection, those of all tenants in turn.

    Args:
        modality: what one query is.
        prepare: makes a large picture small, as its encoder takes it.
        keep: whether what is shown of them is made too.
        decoders: the threads that decode files.
        settings: bounds of the queue.
    """

    def __init__(
        self,
        modality: str,
        prepare: Callable[[Any], Any],
        keep: bool,
        decoders: Executor,
        settings: QueueSettings,
    ) -> None:
        self._modality, self._prepare = modality, prepare
        self._keep, self._decoders = keep, decoders
        self._queue = FairQueue[tuple[Raw, asyncio.Future[Readable]]](
            settings.waiting, settings.waiting_of_tenant
        )

    async def read(self, tenant: str, queries: Sequence[Raw]) -> list[Readable]:
        """The queries of a request; when cancelled, those still waiting are given up."""
        if self._modality in AT_ONCE or (len(queries) == 1 and self._is_small(queries[0])):
            return [self._read(raw) for raw in queries]
        loop = asyncio.get_running_loop()
        waiting = [(raw, loop.create_future()) for raw in queries]
        self._queue.put(tenant, waiting)
        return list(await asyncio.gather(*(read for _, read in waiting)))

    async def run(self) -> None:
        """Read what waits, until cancelled."""
        await asyncio.gather(*(self._run() for _ in range(DECODERS)))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._queue.some()
            if (taken := self._queue.take()) is None:
                continue
            _, (raw, read) = taken
            if not read.done():
                told = await loop.run_in_executor(self._decoders, self._read, raw)
                if not read.done():
                    read.set_result(told)

    def _is_small(self, raw: Raw) -> bool:
        """Whether a query is a picture that is decoded at once."""
        if self._modality != "image" or not isinstance(raw, bytes) or len(raw) > SMALL_FILE:
            return False
        try:
            width, height = picture_size(raw)
        except Error:
            return False  # the decoder says why
        return width * height <= SMALL_PICTURE

    def _read(self, raw: Raw) -> Readable:
        try:
            item = decoded(raw, self._modality)
            told = shown(item, self._modality) if self._keep else None
            large = self._modality == "image" and item.width * item.height > SMALL_PICTURE
            return Readable(self._prepare(item) if large else item, told)
        except Error as error:
            return Readable(error=error)
        except Exception as error:  # decoders raise anything
            return Readable(error=BadFile(f"what it holds cannot be read ({error!r})."))
