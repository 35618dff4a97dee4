"""Work beside the answers: it waits for a pause, but not for ever; callers have turns."""

import asyncio
import os
import sys
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest

from queryshift.serving.answering.queues import NICE, WorkQueue
from queryshift.serving.errors import NotFound
from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.settings import read_settings
from queryshift.support.priority import answering, is_answering
from running_server import SMALL


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


def test_who_only_reads_begins_in_a_pause_of_the_answers(tmp_path, monkeypatch):
    monkeypatch.setattr("queryshift.serving.answering.queues.pause.__defaults__", (600,))
    (tmp_path / "serve.toml").write_text(SMALL)
    settings, begun = read_settings(tmp_path / "serve.toml", data=tmp_path), []

    def collection(name):
        begun.append((name, is_answering()))
        raise NotFound("none is here.")

    service = SimpleNamespace(collection=collection, store=None)
    app = make_app(settings, service, Metrics(), Connections(8))

    async def check():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            with answering():
                paths = ("tenants/t", "tenants/t/history", "tenants", "candidates/1", "")
                reads = (client.get(f"/v1/collections/read/{path}".rstrip("/")) for path in paths)
                asked = asyncio.gather(*reads)
                await client.post("/v1/collections/write/tenants/t/reset")
                await asyncio.sleep(0.05)
                assert begun == [("write", True)]
            return {answer.status_code for answer in await asked}

    assert run(check()) == {404}
    assert begun[1:] == [("read", False)] * 5
