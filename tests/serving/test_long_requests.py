"""When a request with many queries has its turn beside many with one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from queryshift.serving.answering import answers as answering
from queryshift.serving.answering.answers import Answered, Asked
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import QueueSettings


def test_every_fourth_batch_has_four_queries_of_a_long_request(monkeypatch):
    batches = []

    def answered(collection, asked):
        batches.append([item for one in asked for item in one.items])
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(batch=2), Metrics())
            running = asyncio.create_task(queue.run())
            long = [queue.answer("long", Asked(["long"] * 8, [[]] * 8, 1, None, True))]
            few = [queue.answer(f"t{n}", Asked(["few"], [[]], 1, None, True)) for n in range(40)]
            await asyncio.gather(*long, *few)
            running.cancel()

    asyncio.run(ask())
    turns = [place for place, batch in enumerate(batches) if "long" in batch]
    assert turns == [3, 7]
    assert [batches[turn] for turn in turns] == [["long"] * 4] * 2
