"""Answers that are remembered for idempotency keys take no more than so many bytes."""

import asyncio

from queryshift.serving.http import idempotency
from queryshift.serving.http.idempotency import AnswerCache


def test_remembered_answers_are_bounded_by_their_bytes(monkeypatch):
    monkeypatch.setattr(idempotency, "BYTES", 10_000)

    async def ask() -> list[int]:
        made, remembered = [], AnswerCache()

        async def answer() -> str:
            made.append(1)
            return "a" * 4000

        for key in ("one", "two", "two", "three", "three", "one"):
            assert len(await remembered.once((key,), b"", answer)) == 4000
        return made

    assert len(asyncio.run(ask())) == 4  # the first had to go, and was made again
