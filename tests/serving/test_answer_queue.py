"""What goes into one batch of the service: much of who is alone, little of who floods."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from queryshift.serving.answering import answers as answering
from queryshift.serving.answering import queues
from queryshift.serving.answering.answers import Answered, Asked
from queryshift.serving.metrics import Metrics
from queryshift.serving.settings import QueueSettings


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ({"alone": 40}, {"alone": 16}),
        ({"loud": 40, "quiet": 1}, {"loud": 0, "quiet": 1}),
        ({"loud": 40, "quiet": 2, "other": 1}, {"loud": 0, "quiet": 2, "other": 1}),
        ({"few": 5, "some": 9, "more": 6}, {"few": 5, "some": 8, "more": 3}),
        ({"loud": 40, "other": 40}, {"loud": 8, "other": 8}),
        ({f"t{n}": 2 for n in range(8)}, {f"t{n}": 2 for n in range(8)}),
        ({f"t{n}": 8 for n in range(4)}, {"t0": 8, "t1": 8, "t2": 0, "t3": 0}),
    ],
)
def test_the_first_batch(monkeypatch, waiting, expected):
    batches = []

    def answered(collection, asked):
        batches.append([item for one in asked for item in one.items])
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(), Metrics())
            running = asyncio.create_task(queue.run())
            asked = [
                queue.answer(name, Asked([name], [[]], 1, None, True))
                for name, count in waiting.items()
                for _ in range(count)
            ]
            await asyncio.gather(*asked)
            running.cancel()

    asyncio.run(ask())
    assert {name: batches[0].count(name) for name in waiting} == expected
    assert sum(map(len, batches)) == sum(waiting.values()) and max(map(len, batches)) <= 16


@pytest.mark.parametrize(
    ("waiting", "first"),
    [
        ({"loud": [8] * 9, "quiet": [1]}, ["quiet"]),
        ({"loud": [3] * 9, "quiet": [1] * 4}, ["quiet"] * 4),
    ],
)
def test_who_asks_for_much_comes_after_who_does_not(monkeypatch, waiting, first):
    batches = []

    def answered(collection, asked):
        batches.append([one.items[0] for one in asked])
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(), Metrics())
            running = asyncio.create_task(queue.run())
            asked = [
                queue.answer(name, Asked([name] * count, [[]] * count, 1, None, True))
                for name, counts in waiting.items()
                for count in counts
            ]
            await asyncio.gather(*asked)
            running.cancel()

    asyncio.run(ask())
    assert batches[0] == first
    assert all(len(batch) == 1 for batch in batches[1:])


def test_what_was_given_up_takes_no_place(monkeypatch):
    batches = []

    def answered(collection, asked):
        batches.append([one.items[0] for one in asked])
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(batch=4), Metrics())
            asked = [
                asyncio.create_task(queue.answer("one", Asked([number], [[]], 1, None, True)))
                for number in range(8)
            ]
            await asyncio.sleep(0)
            for one in asked[:5]:
                one.cancel()
            await asyncio.gather(*asked[:5], return_exceptions=True)
            running = asyncio.create_task(queue.run())
            await asyncio.gather(*asked[5:])
            running.cancel()

    asyncio.run(ask())
    assert batches == [[5, 6, 7]]


def test_who_asks_for_much_has_each_fourth_turn(monkeypatch):
    batches = []
    monkeypatch.setattr(queues, "time", SimpleNamespace(monotonic=lambda: 0.0))

    def answered(collection, asked):
        batches.append([one.items[0] for one in asked])
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
    assert [number for number, batch in enumerate(batches) if "long" in batch] == [3, 7]


def test_a_request_is_answered_in_the_same_parts_whatever_the_load(monkeypatch):
    parts = []

    def answered(collection, asked):
        parts.extend(tuple(one.items) for one in asked if "quiet" in str(one.items))
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask(loud: int) -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(), Metrics())
            running = asyncio.create_task(queue.run())
            quiet = Asked([f"quiet {number}" for number in range(20)], [[]] * 20, 1, None, True)
            others = [queue.answer("loud", Asked(["x"], [[]], 1, None, True)) for _ in range(loud)]
            await asyncio.gather(*others, queue.answer("quiet", quiet))
            running.cancel()

    asyncio.run(ask(0))
    alone = list(parts)
    parts.clear()
    asyncio.run(ask(200))
    assert parts == alone and [len(part) for part in alone] == [4] * 5


def test_a_fault_of_ours_is_told_to_all_who_wait_and_the_next_are_answered(monkeypatch):
    def answered(collection, asked):
        if any("bad" in one.items for one in asked):
            raise ValueError("a bug of ours")
        return [[Answered()] * len(one) for one in asked]

    monkeypatch.setattr(answering, "answer_rows", answered)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as model:
            queue = answering.AnswerQueue(lambda: None, model, QueueSettings(), Metrics())
            assert not queue.busy
            asked = [
                asyncio.create_task(queue.answer("one", Asked(items, [[]] * 3, 1, None, True)))
                for items in (["a"] * 3, ["bad"] * 3)
            ]
            await asyncio.sleep(0)
            assert queue.busy
            running = asyncio.create_task(queue.run())
            found = await asyncio.wait_for(asyncio.gather(*asked), 10)
            assert [[str(one.error) for one in each] for each in found] == [
                ["a bug of ours"] * 3
            ] * 2
            assert not queue.busy
            good = queue.answer("one", Asked(["a"], [[]], 1, None, True))
            assert (await asyncio.wait_for(good, 10))[0].error is None
            running.cancel()

    asyncio.run(ask())


def test_one_query_that_waits_is_enough_to_be_busy():
    async def ask() -> bool:
        queue = answering.AnswerQueue(lambda: None, None, QueueSettings(), Metrics())
        waiting = asyncio.create_task(queue.answer("one", Asked(["a"], [[]], 1, None, True)))
        await asyncio.sleep(0)
        waiting.cancel()
        return queue.busy

    assert asyncio.run(ask())
