"""Learning after a search: its share of the time under load, and groups that are given up."""

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from queries_to_send import png

from queryshift.serving.answering import search
from queryshift.serving.answering.answers import AnswerQueue
from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.errors import StoreTrouble
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, QueueSettings, ServeSettings


def with_service(folder, work, **queues):
    """What work gives with one collection's owner and the metrics; then the service ends."""
    shop = CollectionSettings(candidates=16, gather=2, mode="live", guard=False)
    settings = ServeSettings(
        data=folder, collections={"tangram": shop}, queues=QueueSettings(**queues)
    )

    async def started():
        metrics = Metrics()
        service = Service(settings, metrics)
        await service.start()
        try:
            return await work(service.collection("tangram"), metrics.registry.get_sample_value)
        finally:
            await service.stop()

    return asyncio.run(asyncio.wait_for(started(), 20))


def ask(owner, *numbers: int):
    queries = [png(number, 90) for number in numbers]
    call = SearchRequest("one", "id", queries, 3, True, [[]] * len(queries))
    return owner.search(call)


@pytest.mark.parametrize(
    ("busy", "pauses"), [([True, True], [6.0]), ([True, False], []), ([False, True], [])]
)
def test_while_queries_wait_learning_has_its_share_of_the_time(busy, pauses, tmp_path, monkeypatch):
    left, slept, clock = list(busy), [], [10.0]

    async def sleep(seconds):
        slept.append(seconds)

    def perf_counter():
        return clock.pop() if clock else 12.0  # two seconds later, however often it is asked

    async def work(owner, value):
        with monkeypatch.context() as patch:
            patch.setattr(AnswerQueue, "busy", property(lambda queue: left.pop(0)))
            fake = SimpleNamespace(time=time.time, perf_counter=perf_counter)
            patch.setattr(search, "time", fake)
            patch.setattr(search, "asyncio", SimpleNamespace(sleep=sleep, gather=asyncio.gather))
            await ask(owner, 1, 2)
            await owner.learning.drained()
        row = (await owner.history("one", 0, 10))[0]
        return row["delay"], value("queryshift_update_seconds_sum")

    delay, seconds = with_service(tmp_path, work, learning_share=0.25)
    assert slept == pauses and seconds == 2.0
    assert 2.0 <= delay < 12.0


def test_a_group_that_is_given_up_is_counted_and_told(tmp_path, monkeypatch):
    async def work(owner, value):
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def may_learn(tenant):
            begun.set()
            await may_end.wait()
            return True

        monkeypatch.setattr(owner.cache, "may_learn", may_learn)
        await ask(owner, 1, 2)  # is learnt
        await begun.wait()
        await ask(owner, 3, 4)  # waits until it is given up
        await ask(owner, 5, 6)
        before = await owner.tenant("one")
        may_end.set()
        await owner.learning.drained()
        rows = await owner.history("one", 0, 10)
        drops = value("queryshift_drops_total", {"collection": "tangram"})
        return before, rows, drops, await owner.tenant("one")

    before, rows, drops, after = with_service(tmp_path, work, updates_of_tenant=1)
    assert before["drops"] == after["drops"] == drops == 1
    assert [row["dropped"] for row in rows] == [1, 0] and after["batches"] == 2
    assert (before["pending"], after["pending"]) == (4, 0)


def test_an_operators_change_is_made_on_what_another_process_left(tmp_path):
    async def work(owner, value):
        await ask(owner, 1)
        cache, tenant = owner.cache, owner.cache.loaded["one"]
        commit = cache.rows.commit

        def full(change):
            raise StoreTrouble("nobody knows whether it was written.")

        tenant.record.queries += 1
        tenant.add_row({"updated": 0, "queries": 1}, 0.0)
        cache.rows.commit = full
        with pytest.raises(StoreTrouble):
            await cache.save(tenant)
        cache.rows.commit = commit
        theirs = replace(tenant.attempt, token="theirs", rows=(), mode="shadow")
        await asyncio.to_thread(commit, theirs)  # another process was faster
        told = await owner.set_mode("one", "frozen")
        stored = await asyncio.to_thread(cache.rows.find, "one")
        return told["mode"], stored.record.mode, stored.version - tenant.seen, tenant.record.drops

    assert with_service(tmp_path, work) == ("frozen", "frozen", 0, 1)  # a batch was lost
