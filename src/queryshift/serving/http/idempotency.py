"""Idempotency keys: a request that is sent again is answered as before, and teaches once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..errors import Conflict, Malformed, StoreTrouble
from ..store.database import Database, insert
from ..store.retention import KEY_SECONDS

LONGEST_KEY = 200
PATIENCE = 5.0  # seconds that the store may take
Told: TypeAlias = dict[str, Any]  # an answer, as JSON has it
Work: TypeAlias = Callable[[], Coroutine[Any, Any, Told]]
logger = logging.getLogger("queryshift.serving")


@dataclass(frozen=True)
class Key:
    """An idempotency key.

    Attributes:
        caller: who sent it: the name of the token.
        path: to where.
        collection: of the request.
        tenant: whose request it is; when it is deleted, so is the key.
        name: the key itself.
        body: a digest of the body.
    """

    caller: str
    path: str
    collection: str
    tenant: str
    name: str
    body: bytes


def find_answer(database: Database, key: Key) -> tuple[bytes, bytes] | None:
    """The digest of the body that came with a key, and its answer; None: it is new."""
    where = {"caller": key.caller, "path": key.path, "name": key.name}
    found = database.rows(FIND, **where, limit=time.time() - KEY_SECONDS)
    return next(((bytes(row.body), bytes(row.answer)) for row in found), None)


def keep_answers(database: Database, answers: Sequence[tuple[Key, bytes]]) -> None:
    """Keep answers; one that is there stays.

    Those of searches are not synced: what they taught is written later, and never without them.
    """
    values = [{**vars(key), "answer": answer, "at": time.time()} for key, answer in answers]
    searches = all(key.path.endswith("/search") for key, _ in answers)
    with database.writing("NORMAL" if searches else "FULL") as connection:
        connection.execute(KEEP, values)


@dataclass(eq=False)
class _Running:
    """A request under way, and how many wait for it."""

    body: bytes  # a digest of it
    task: asyncio.Task[Told]
    waiting: int = 0


class IdempotentRequests:
    """Requests under way by their keys; the answers are in the store, where all processes see them.

    Args:
        database: the store.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._writing = database, asyncio.Lock()
        self._running: dict[tuple[str, ...], _Running] = {}
        self._unwritten: list[tuple[Key, bytes]] = []

    async def once(self, key: Key, work: Work) -> Told:
        """The answer to a request, worked out once however often it is sent.

        A request that all who sent it have given up is cancelled; what fails is forgotten.
        """
        if len(key.name) > LONGEST_KEY:
            raise Malformed(f"the idempotency key has more than {LONGEST_KEY} characters.")
        place = (key.caller, key.path, key.name)
        running = self._running.get(place)
        if running is None:
            running = _Running(key.body, asyncio.create_task(self._answer(key, work)))
            self._running[place] = running
        _check_body(running.body, key)
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting:
                running.task.cancel()  # nothing, where it is done
                if self._running.get(place) is running:
                    del self._running[place]

    async def _answer(self, key: Key, work: Work) -> Told:
        """The answer that is stored under a key, or what the work gives, which is then stored.

        A store that does not answer in time costs no answer: a retry is then answered anew.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                found = await asyncio.to_thread(find_answer, self._database, key)
        except (StoreTrouble, TimeoutError) as error:
            logger.info("an idempotency key was not looked up: %r", error)
            return await work()
        if found is not None:
            _check_body(found[0], key)
            with suppress(ValueError):  # a damaged one is worked out anew
                kept: Told = json.loads(found[1])
                return kept
        told = await work()
        self._unwritten.append((key, to_json(told)))
        await self._write()
        return told

    async def _write(self) -> None:
        """Write what waits in one transaction: those who come meanwhile wait for the next one."""
        try:
            async with asyncio.timeout(PATIENCE), self._writing:
                answers, self._unwritten = self._unwritten, []
                if answers:  # else who came before us wrote ours
                    await asyncio.to_thread(keep_answers, self._database, answers)
        except (StoreTrouble, TimeoutError) as error:
            logger.info("idempotency keys were not kept: %r", error)


def _check_body(body: bytes, key: Key) -> None:
    if body != key.body:
        raise Conflict("this idempotency key was used with another body: take a new one.")


FIND = """
SELECT body, answer FROM idempotency_keys
WHERE caller = :caller AND path = :path AND name = :name AND at > :limit
"""
KEY = ("caller", "path", "name")
KEEP = insert("idempotency_keys", KEY, ("collection", "tenant", "body", "answer", "at"), "NOTHING")
