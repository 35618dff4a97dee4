"""When a request with many queries has its turn beside many with one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from queryshift.serving.answering import answers as answering
from queryshift.serving.answering.answers import Answered, Asked
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import QueueSettings


def test_the_fourth_batch_may_take_long(monkeypatch):
    batches = []

    def answered(collection, asked):
        batches.append({one.items[0] for one in asked})
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
    assert [place for place, batch in enumerate(batches) if "long" in batch] == [3]
