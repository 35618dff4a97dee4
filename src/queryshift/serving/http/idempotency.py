"""Idempotency keys: a request that is sent again is answered as before, and teaches once."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from ..errors import Conflict, Malformed

SECONDS = 600.0
ENTRIES = 20_000
BYTES = 64 * 2**20  # of answers
LONGEST_KEY = 200

Key = tuple[str, ...]


@dataclass(eq=False)
class _Entry:
    """A request under way or answered, and how many wait for it."""

    body: bytes  # a digest of it
    work: asyncio.Task[Any] | None  # under way
    since: float
    answer: bytes = b""  # as JSON: a finished task would keep all that it worked with
    waiting: int = 0


class AnswerCache:
    """Answers by idempotency key, for ten minutes, as long as there is room for them."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0  # of their answers

    async def once(
        self, key: Key, body: bytes, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        """The answer to a request, worked out once however often it is sent.

        A request that all who sent it have given up is cancelled; what fails is forgotten.

        Args:
            key: the key, with who sent it and to where.
            body: a digest of the body: another one under the same key is refused.
            work: answers the request.
        """
        if len(key[-1]) > LONGEST_KEY:
            raise Malformed(f"the idempotency key has more than {LONGEST_KEY} characters.")
        self._forget_old()
        entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(body, asyncio.create_task(work()), time.monotonic())
            self._entries[key] = entry
        elif entry.body != body:
            raise Conflict("this idempotency key was used with another body: take a new one.")
        if entry.work is None:
            return json.loads(entry.answer)
        entry.waiting += 1
        try:
            return await asyncio.shield(entry.work)
        finally:
            entry.waiting -= 1
            self._settle(key, entry)

    def _settle(self, key: Key, entry: _Entry) -> None:
        """Keep an answer, cancel what nobody waits for any more, forget what gave none."""
        task = entry.work
        if task is None:
            return
        if not task.done() and entry.waiting == 0:
            task.cancel()
        if task.done() and not task.cancelled() and task.exception() is None:
            entry.answer, entry.work = to_json(task.result()), None
            if self._entries.get(key) is entry:
                self._bytes += len(entry.answer)
                self._forget_old()
        elif (task.done() or task.cancelling()) and self._entries.get(key) is entry:
            del self._entries[key]

    def forget(self, collection: str, tenant: str) -> None:
        """Forget the answers to a tenant's requests."""
        for key in [key for key in self._entries if key[-3:-1] == (collection, tenant)]:
            self._entries[key].since = -SECONDS
            self._entries.move_to_end(key, last=False)
        self._forget_old()

    def _forget_old(self) -> None:
        limit = time.monotonic() - SECONDS
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.since > limit and len(self._entries) < ENTRIES and self._bytes <= BYTES:
                return
            self._entries.popitem(last=False)
            self._bytes -= len(oldest.answer)
