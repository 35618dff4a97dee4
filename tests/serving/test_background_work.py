"""What runs beside the answers: when it begins, one at a time, and how long its end takes."""

import asyncio
import threading
import time

import pytest
from starlette.requests import ClientDisconnect

from queryshift.serving.answering import queues
from queryshift.serving.answering.queues import WorkQueue
from queryshift.serving.http.request_context import unless_hung_up
from queryshift.serving.metrics import Metrics
from queryshift.serving.runtime import Runtime
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings
from queryshift.support.priority import answering


def run(work):
    return asyncio.run(asyncio.wait_for(work, 30))


def test_files_are_decoded_while_others_are_answered(monkeypatch):
    asked, pause = [], queues.pause

    async def noted(patience):
        asked.append(patience)
        await pause(0)

    monkeypatch.setattr(queues, "pause", noted)

    async def check():
        queue = WorkQueue("decoder", 1, 8, 4)
        task = asyncio.create_task(queue.run())
        with answering():
            assert await queue.do("one", [lambda: 1]) == [1]
        task.cancel()

    run(check())
    assert asked == [0]


@pytest.mark.parametrize("thread", ["model", "learner", "background"])
def test_one_forward_one_update_and_one_look_run_at_a_time(thread, tmp_path):
    together, most, lock = [0], [0], threading.Lock()

    def work():
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        time.sleep(0.02)
        with lock:
            together[0] -= 1

    async def check():
        runtime = Runtime(ServeSettings(data=tmp_path), Metrics())
        task, loop = asyncio.create_task(runtime.run()), asyncio.get_running_loop()
        if thread == "background":
            asked = [runtime.background.do(caller, [work] * 2) for caller in "abc"]
        else:
            asked = [loop.run_in_executor(getattr(runtime, thread), work) for _ in range(4)]
        await asyncio.gather(*asked)
        task.cancel()
        runtime.close()

    run(check())
    assert most == [1]


def test_the_end_waits_half_of_drain_seconds_for_what_is_still_to_be_learnt(tmp_path, caplog):
    given = {"tangram": CollectionSettings(candidates=16, gather=2)}

    async def check():
        settings = ServeSettings(data=tmp_path, collections=given, drain_seconds=1.0)
        service = Service(settings, Metrics())
        await service.start()
        service.collection("tangram").learning.drained = asyncio.Event().wait
        started = time.monotonic()
        await service.stop()
        return time.monotonic() - started

    assert 0.5 <= run(check()) < 2.0
    assert "were given up" in caplog.text


class Connected:
    """A request whose client sends something, then nothing more, or leaves."""

    def __init__(self, *messages: str) -> None:
        self._messages = [{"type": one} for one in messages]

    async def receive(self):
        if self._messages:
            return self._messages.pop(0)
        await asyncio.Event().wait()


async def work():
    await asyncio.sleep(0.05)
    return {"answers": []}


def test_who_waits_for_its_answer_gets_it():
    assert run(unless_hung_up(Connected("http.request"), work())) == {"answers": []}


def test_who_leaves_is_not_answered():
    with pytest.raises(ClientDisconnect):
        run(unless_hung_up(Connected("http.request", "http.disconnect"), work()))
