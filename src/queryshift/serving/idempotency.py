"""Idempotency keys: a request that is sent again is answered as before, and teaches once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .refusals import Conflict, Malformed

SECONDS = 600.0
ENTRIES = 20_000
LONGEST_KEY = 200

Key = tuple[str, ...]


@dataclass(frozen=True)
class _Entry:
    body: bytes  # a digest of it
    answer: asyncio.Future[Any]
    since: float


class Remembered:
    """Answers by idempotency key, for ten minutes, and no more than so many."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()

    async def once(self, key: Key, body: bytes, work: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a request, worked out once however often it is sent.

        Args:
            key: the key, with who sent it and to where.
            body: a digest of the body: another one under the same key is refused.
            work: answers the request; what fails is not remembered.
        """
        if len(key[-1]) > LONGEST_KEY:
            raise Malformed(f"the idempotency key has more than {LONGEST_KEY} characters.")
        self._forget_old()
        entry = self._entries.get(key)
        if entry is not None:
            if entry.body != body:
                raise Conflict("this idempotency key was used with another body: take a new one.")
            return await asyncio.shield(entry.answer)
        answer = asyncio.get_running_loop().create_future()
        self._entries[key] = _Entry(body, answer, time.monotonic())
        try:
            value = await work()
        except BaseException as error:
            self._entries.pop(key, None)
            _fail(answer, error)
            raise
        answer.set_result(value)
        return value

    def _forget_old(self) -> None:
        limit = time.monotonic() - SECONDS
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.since > limit and len(self._entries) < ENTRIES:
                return
            self._entries.popitem(last=False)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    """Tell those who wait for the same answer; nobody may be waiting."""
    if isinstance(error, Exception):
        answer.set_exception(error)
        answer.exception()  # seen, so that it is not logged as lost
    else:
        answer.cancel()
