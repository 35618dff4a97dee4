"""What goes into one batch of the service: much of who is alone, little of who floods."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from queryshift.serving import answering
from queryshift.serving.answer_rows import Answered, Asked
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import QueueSettings


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ({"alone": 40}, {"alone": 16}),
        ({"loud": 40, "quiet": 1}, {"loud": 2, "quiet": 1}),
        ({"few": 5, "some": 9, "more": 6}, {"few": 5, "some": 8, "more": 3}),
        ({"loud": 40, "other": 40}, {"loud": 8, "other": 8}),
        ({f"t{n}": 2 for n in range(8)}, {f"t{n}": 2 for n in range(8)}),
        ({f"t{n}": 8 for n in range(4)}, {"t0": 8, "t1": 8, "t2": 0, "t3": 0}),
    ],
)
def test_the_first_batch(monkeypatch, waiting, expected):
    batches = []

    def answered(collection, asked):
        batches.append([one.item for one in asked])
        return [Answered() for _ in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.Answering(lambda: None, model, QueueSettings(), Metrics())
            running = asyncio.create_task(queue.run())
            queries = {
                name: [Asked(name, [], 1, None, True)] * count for name, count in waiting.items()
            }
            await asyncio.gather(*(queue.answer(name, all) for name, all in queries.items()))
            running.cancel()

    asyncio.run(ask())
    assert {name: batches[0].count(name) for name in waiting} == expected
    assert sum(map(len, batches)) == sum(waiting.values()) and max(map(len, batches)) <= 16
