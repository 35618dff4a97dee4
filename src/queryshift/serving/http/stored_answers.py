"""Answers under idempotency keys, kept in the store beside those in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import Conflict, StoreTrouble
from ..store.database import Database
from ..store.key_rows import Key, KeyRows

logger = logging.getLogger("queryshift.serving")


class StoredAnswers:
    """Answers that outlive the process, and that other processes know.

    Args:
        database: the store.
    """

    def __init__(self, database: Database) -> None:
        self._rows, self._writing = KeyRows(database), asyncio.Lock()
        self._waiting: list[tuple[Key, bytes]] = []

    async def once(self, key: Key, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The answer that is kept under a key, or what the work gives, which is then kept.

        A store that does not answer costs no answer: a retry is then known to this process only.
        """
        try:
            found = await asyncio.to_thread(self._rows.find, key)
        except StoreTrouble as error:
            logger.info("an idempotency key was not looked up: %s", error)
            return await work()
        if found is not None:
            body, answer = found
            if body != key.body:
                raise Conflict("this idempotency key was used with another body: take a new one.")
            return json.loads(answer)
        told = await work()
        self._waiting.append((key, json.dumps(told).encode()))
        await self._keep()
        return told

    async def _keep(self) -> None:
        """Write what waits in one transaction: those who come meanwhile wait for the next one."""
        async with self._writing:
            answers, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._rows.keep, answers)
            except StoreTrouble as error:
                logger.info("%d idempotency keys were not kept: %s", len(answers), error)
