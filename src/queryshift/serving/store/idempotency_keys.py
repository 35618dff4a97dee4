"""Answers under idempotency keys: a retry after a kill, or elsewhere, teaches once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .database import Database, insert

SECONDS = 600.0  # that an answer is kept


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
    found = database.rows(FIND, **where, limit=time.time() - SECONDS)
    return next(((bytes(row.body), bytes(row.answer)) for row in found), None)


def keep_answers(database: Database, answers: Sequence[tuple[Key, bytes]]) -> None:
    """Keep answers; one that is there stays."""
    now = time.time()
    values = [{**vars(key), "answer": answer, "at": now} for key, answer in answers]
    if values:
        with database.writing() as connection:
            connection.execute(KEEP, values)


FIND = """
SELECT body, answer FROM idempotency_keys
WHERE caller = :caller AND path = :path AND name = :name AND at > :limit
"""
KEY = ("caller", "path", "name")
KEEP = insert("idempotency_keys", KEY, ("collection", "tenant", "body", "answer", "at"), "NOTHING")
