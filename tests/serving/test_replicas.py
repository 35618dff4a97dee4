"""Several processes over one PostgreSQL: what one does the others see, nothing counts twice."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from queries_to_send import png

from queryshift.serving import service as module
from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.errors import NotFound, StoreTrouble
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings
from queryshift.serving.store.database import Database


def run(work):
    return asyncio.run(asyncio.wait_for(work, 90))


@asynccontextmanager
async def replicas(address, folder, count=2, **collection):
    """So many servers' tenants over one database, each as in a process of its own."""
    given = {"candidates": 64, "gather": 4, "mode": "live", "guard": False, **collection}
    settings = ServeSettings(
        data=folder,
        store=address,
        collections={"tangram": CollectionSettings(**given)},
        tenants=TenantSettings(save_seconds=60, save_batches=50),  # nothing by itself
    )
    running = [Service(settings, Metrics()) for _ in range(count)]
    for one in running:
        await one.start()
    try:
        yield [one.collection("tangram") for one in running]
    finally:
        for one in running:
            await one.stop()


async def taught(owner, start=0, name="one"):
    """Four queries of a tenant, answered and learnt."""
    queries = [png(number % 64, 90) for number in range(start, start + 4)]
    await owner.search(SearchRequest(name, f"{name}-{start}", queries, 3, True, [[]] * 4))
    await owner.learning.drained()


async def until(look, seconds=30.0):
    """Return when a look gives something true; on a busy machine that takes a while."""
    started = time.monotonic()
    while not await look():
        assert time.monotonic() - started < seconds, "it was not seen in time"
        await asyncio.sleep(0.01)


def loaded(owner, name="one"):
    return owner.cache.loaded.get(name)


async def in_memory(owner, name="one"):
    async with owner.cache.using(name):
        pass


async def both_know(first, second):
    await taught(first)
    await first.save(all_changed=True)
    await in_memory(second)


async def nothing_told(database):
    """What is heard behind a pooler that forgets LISTEN."""
    await asyncio.Event().wait()
    yield


@pytest.mark.parametrize("listening", [True, False], ids=["notified", "polling"])
def test_changes_by_one_replica_are_seen_by_the_other(listening, address, tmp_path, monkeypatch):
    assert module.LOOK_EVERY <= 0.5  # so that a change is seen within a second in any case
    if listening:
        monkeypatch.setattr(module, "LOOK_EVERY", 600)
    else:
        monkeypatch.setattr(Database, "changes", nothing_told)

    async def check():
        async with replicas(address, tmp_path) as (first, second):
            await both_know(first, second)
            other = loaded(second)

            async def seen(look):
                async def looked():
                    return look()

                await until(looked)

            in_force = other.session.state.adapted.updates
            assert in_force == 3
            await first.set_mode("one", "frozen")
            await seen(lambda: other.record.mode == "frozen")
            await first.snapshot("one", "kept")
            assert [one["name"] for one in await second.snapshots("one")] == ["kept"]
            await first.reset("one")
            await seen(lambda: other.session.state.adapted.updates == 0)
            await second.rollback("one", "kept")
            mine = loaded(first)
            await seen(lambda: mine.session.state.adapted.updates == in_force)
            assert await first.delete("one")
            await seen(lambda: loaded(second) is None)
            with pytest.raises(NotFound):
                await second.tenant("one")

    run(check())


def test_an_update_that_lost_the_race_is_dropped_and_counted(address, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 60)
    monkeypatch.setattr(Database, "changes", nothing_told)

    async def check():
        async with replicas(address, tmp_path) as (first, second):
            await both_know(first, second)
            slow, fast = loaded(second), loaded(first)
            slow.contended_until = 0.0  # it has not heard of the other
            with monkeypatch.context() as patch:  # the second does not look before it learns
                for owner in (first, second):
                    patch.setattr(owner.cache.rows, "shared", False)
                await taught(second, 4)
                await taught(first, 8)
            await first.save(all_changed=True)
            assert fast.seen == 3 and slow.seen == 2
            await second.save(all_changed=True)
            assert slow.seen == fast.seen == 3
            assert slow.session.state.adapted.updates == 6
            told = [await owner.tenant("one") for owner in (first, second)]
            rows = [await owner.history("one", 0, 100) for owner in (first, second)]
            await second.save(all_changed=True)
            stored = await first.tenant("one")
            metrics = second.metrics.text()
            return told, rows, stored, metrics

    told, rows, stored, metrics = run(check())
    assert [one["updates"] for one in told] == [2, 2]
    assert [[row["batch"] for row in one] for one in rows] == [[1, 2], [1, 2]]
    assert told[1]["queries"] == 12 and (stored["queries"], stored["drops"]) == (12, 1)
    assert b'queryshift_lost_updates_total{collection="tangram"} 1.0' in metrics


def test_a_replica_learns_on_what_others_have_learnt(address, tmp_path):
    async def check():
        async with replicas(address, tmp_path, 3) as owners:
            for number in range(9):
                await taught(owners[number % 3], 4 * number)
                if number == 0:
                    await owners[0].save(all_changed=True)
            for owner in owners:
                await owner.save(all_changed=True)
            told = [await owner.tenant("one") for owner in owners]
            return [(one["updates"], one["report"]["updates_in_force"]) for one in told], told[0]

    figures, told = run(check())
    assert len(set(figures)) == 1 and figures[0][1] == 3 * figures[0][0]
    assert told["queries"] == 36 and told["updates"] + told["drops"] == 9
    assert told["updates"] >= 8  # in turns nearly nothing is lost: each batch is written at once


def test_a_change_is_made_on_what_another_replica_left(address, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 60)
    monkeypatch.setattr(Database, "changes", nothing_told)

    async def check():
        async with replicas(address, tmp_path) as (first, second):
            await both_know(first, second)
            await taught(first, 4)
            await first.save(all_changed=True)
            told = await second.set_mode("one", "shadow")  # it knows an older version
            assert (told["mode"], told["updates"]) == ("shadow", 2)
            assert (await first.set_mode("one", "live"))["mode"] == "live"  # as it was, it believes
            assert (await second.tenant("one"))["mode"] == "live"
            await second.set_mode("one", "shadow")
            told = await first.reset("one")
            assert (told["mode"], told["report"]["updates_in_force"]) == ("shadow", 0)

    run(check())


def test_while_the_database_is_away_answers_go_on_and_changes_are_refused(
    address, tmp_path, monkeypatch
):
    async def check():
        async with replicas(address, tmp_path, 1) as (owner,):
            await taught(owner)
            await owner.save(all_changed=True)

            def away(*_):
                raise StoreTrouble("the store does not answer.")

            with monkeypatch.context() as patch:
                patch.setattr(owner.cache.rows, "commit", away)
                patch.setattr(owner.cache.rows, "versions", away)
                await owner.search(SearchRequest("one", "id", [png(1)], 3, False, [[]]))
                await taught(owner, 4)  # it learns on what it knows
                for change in (owner.set_mode("one", "frozen"), owner.reset("one")):
                    with pytest.raises(StoreTrouble):
                        await change
                assert loaded(owner).record.mode == "live"
                assert loaded(owner).session.state.adapted.updates == 6
            told = await owner.set_mode("one", "shadow")
            assert (told["mode"], told["queries"], told["updates"]) == ("shadow", 9, 2)

    run(check())


def lost_after(commit):
    """A commit that is made, and whose acknowledgement never comes: PostgreSQL was killed."""

    def committed(change):
        commit(change)
        raise StoreTrouble("the store does not answer.")

    return committed


@pytest.mark.parametrize("seen", ["poll", "report", "nothing"])
@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside another"])
def test_a_change_whose_acknowledgement_was_lost_counts_once(
    other, seen, address, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "LOOK_EVERY", 60)
    monkeypatch.setattr(Database, "changes", nothing_told)

    async def check():
        async with replicas(address, tmp_path) as (first, second):
            await both_know(first, second)
            await taught(first, 4)
            loaded(second).contended_until = 0.0
            rows = first.cache.rows
            with monkeypatch.context() as patch:
                patch.setattr(rows, "commit", lost_after(rows.commit))
                await first.save(all_changed=True)
            assert loaded(first).attempt is not None
            if other:
                await taught(second, 8)
                await second.save(all_changed=True)
            if seen == "poll":
                await first.follow()
            if seen == "report":
                await first.tenant("one")
            await taught(first, 12)
            await first.save(all_changed=True)
            told = [await owner.tenant("one") for owner in (first, second)]
            return told, await second.history("one", 0, 100)

    told, rows = run(check())
    batches = 4 if other else 3
    for one in told:
        assert (one["batches"], one["updates"], one["drops"]) == (batches, batches, 0)
        assert one["queries"] == 4 * batches
        assert one["report"]["updates_in_force"] == 3 * batches
    assert [row["batch"] for row in rows] == list(range(1, batches + 1))


def test_a_sample_of_ordinary_queries_is_put_in_force_everywhere(address, tmp_path):
    async def check():
        async with replicas(address, tmp_path) as (first, second):
            before = second.collection.reference
            await first.set_reference([png(number) for number in range(20, 50)])

            async def seen():
                return second.collection.reference != before

            await until(seen)
            assert second.collection.reference == first.collection.reference

    run(check())
