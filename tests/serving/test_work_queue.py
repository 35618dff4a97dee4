"""Work beside the answers: it waits for a pause, but not for ever; callers have turns."""

import asyncio
import os
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from queryshift.serving.answering.queues import NICE, WorkQueue
from queryshift.support.priority import answering, is_answering


@asynccontextmanager
async def running(patience):
    queue = WorkQueue("test", 1, 8, 4, patience)
    task = asyncio.create_task(queue.run())
    yield queue
    task.cancel()


def run(work):
    return asyncio.run(asyncio.wait_for(work, 30))


def test_a_piece_waits_until_no_query_is_answered():
    done = []

    async def check():
        async with running(patience=600) as queue:
            with answering():
                asked = asyncio.create_task(queue.do("one", [lambda: done.append(is_answering())]))
                await asyncio.sleep(0.05)
                assert done == []
            await asked

    run(check())
    assert done == [False]


def test_under_full_load_a_piece_waits_no_longer_than_its_patience():
    async def check():
        async with running(patience=0.01) as queue:
            with answering():
                return await queue.do("one", [lambda: 1, lambda: 2])

    assert run(check()) == [1, 2]


def test_callers_have_turns_and_one_who_fails_is_told():
    done = []

    def fail():
        raise ValueError("no image")

    async def check():
        async with running(patience=0) as queue:
            loud = queue.do("loud", [lambda number=number: done.append(number) for number in "abc"])
            quiet, failed = queue.do("quiet", [lambda: done.append("q")]), queue.do("bad", [fail])
            told = await asyncio.gather(loud, quiet, failed, return_exceptions=True)
            return told[2]

    with pytest.raises(ValueError, match="no image"):
        raise run(check())
    assert done.index("q") < 2 and sorted(done) == ["a", "b", "c", "q"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_its_threads_give_way_to_those_that_answer():
    def priority():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def check():
        async with running(patience=0) as queue:
            return await queue.do("one", [priority])

    before = priority()
    assert run(check()) == [min(19, before + NICE)] and priority() == before
