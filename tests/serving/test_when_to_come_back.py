"""Who finds a full queue is told how long it takes, as measured of the latest batches."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from queryshift.serving.answering.answers import AnswerQueue, Asked
from queryshift.serving.errors import TooBusy
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import QueueSettings


def told(measured, waiting: int = 200) -> int:
    """Seconds to wait where so many queries wait, after batches of (queries, seconds)."""

    async def ask() -> int:
        with ThreadPoolExecutor(1) as model:
            settings = QueueSettings(waiting_of_tenant=waiting)
            queue = AnswerQueue(lambda: None, model, settings, Metrics())
            for one in measured:
                queue._measure(*one)
            asked = Asked(["x"] * waiting, [[]] * waiting, 1, None, True)
            task = asyncio.create_task(queue.answer("one", asked))
            await asyncio.sleep(0)
            assert queue.busy
            queue.check_room("other", waiting)
            with pytest.raises(TooBusy, match=f"{waiting} queries are waiting") as full:
                queue.check_room("one", 1)
            task.cancel()
            return int(full.value.headers["Retry-After"])

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [([], 2), ([(8, 0.8)] * 100, 20), ([(1, 0.5)] * 100, 100), ([(10, 0.01)] * 100, 1)],
)
def test_it_is_the_time_of_those_who_wait(measured, seconds):
    assert told(measured) == pytest.approx(seconds, rel=0.02)


def test_one_slow_batch_does_not_say_much():
    assert told([(10, 0.1)] * 100 + [(10, 1.0)]) == round(200 * (0.9 * 0.01 + 0.1 * 0.1))
