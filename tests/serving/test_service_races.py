"""What happens at once: changes beside updates, clients that leave, tenants that come and go."""

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fastapi import Request
from queries_to_send import png
from starlette.requests import ClientDisconnect

from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.errors import Conflict, Refused
from queryshift.serving.http import idempotency
from queryshift.serving.http.idempotency import IdempotentRequests, Key, keep_answers
from queryshift.serving.http.request_context import carried_out, unless_hung_up
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings
from queryshift.serving.store.schema import open_store


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def small_tenants(folder, **tenants):
    """Tenants of a small collection, who learn four queries at a time."""
    settings = ServeSettings(
        data=folder,
        collections={"tangram": CollectionSettings(candidates=64, gather=4, mode="live")},
        tenants=TenantSettings(**tenants),
    )
    return Service(settings, Metrics())


@asynccontextmanager
async def started(folder, **tenants):
    """The owner of such tenants, until the block ends."""
    running = small_tenants(folder, **tenants)
    await running.start()
    yield running.collection("tangram")
    await running.stop()


async def taught(owner, name="one"):
    """Four queries of a tenant, answered: one group that is to be learnt."""
    queries = [png(number, 90) for number in range(4)]
    await owner.search(SearchRequest(name, name, queries, 3, True, [[]] * 4))


@asynccontextmanager
async def busy_learner(owner):
    """The learner's thread is busy elsewhere for the block, with a group of "one" behind it."""
    released = threading.Event()
    owner.runtime.learner.submit(released.wait)
    try:
        await taught(owner)
        while owner.learning._current != "one":
            await asyncio.sleep(0)
        yield
    finally:
        released.set()


async def updates(owner):
    await owner.learning.drained()
    return (await owner.tenant("one"))["report"]["updates_in_force"]


@pytest.mark.parametrize("change", ["reset", "rollback"])
def test_a_group_that_waits_for_the_learner_is_not_learnt_after_a(change, tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            await owner.snapshot("one", "empty")
            async with busy_learner(owner):
                args = ("one", "empty") if change == "rollback" else ("one",)
                changing = asyncio.create_task(getattr(owner, change)(*args))
                await asyncio.sleep(0.05)
            assert (await changing)["report"]["updates_in_force"] == 0
            assert await updates(owner) == 0
            await taught(owner)
            assert await updates(owner) > 0

    run(check())


def test_a_group_that_waits_for_the_learner_is_not_learnt_once_its_tenant_is_frozen(tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            async with busy_learner(owner):
                await owner.set_mode("one", "frozen")
            assert await updates(owner) == 0

    run(check())


def test_queries_under_way_when_their_tenant_is_frozen_are_not_learnt(tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            released = threading.Event()
            owner.runtime.model.submit(released.wait)
            asked = asyncio.create_task(taught(owner))
            while not len(owner.answering._asked):
                await asyncio.sleep(0.01)
            await owner.set_mode("one", "frozen")
            assert not asked.done()
            released.set()
            await asked
            told = await owner.tenant("one")
            assert (told["queries"], told["pending"], await updates(owner)) == (4, 0, 0)

    run(check())


def test_an_update_under_way_is_not_lost_where_ordinary_queries_are_put(tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            async with busy_learner(owner):
                await owner.set_reference([png(number) for number in range(20, 50)])
                before = (await owner.tenant("one"))["report"]["updates_in_force"]
            assert before == 0 and await updates(owner) > 0
            assert owner.cache.loaded["one"].made_for is owner.collection

    run(check())


def test_tenants_that_were_all_in_use_go_to_disk_when_they_are_let_go(tmp_path):
    async def check():
        async with started(tmp_path, loaded=1) as owner:
            residents = owner.cache
            async with residents.using("one", create=True), residents.using("two", create=True):
                assert len(residents.loaded) == 2
            while len(residents.loaded) > 1:
                await asyncio.sleep(0.01)

    run(check())


def test_feedback_that_is_refused_counts_no_click(tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            await owner.set_mode("one", "shadow")
            await taught(owner)
            with pytest.raises(Exception, match="query 9 is none"):
                await owner.feedback("one", "one", [(0, [0]), (9, [0])])
            assert (await owner.tenant("one"))["clicks"] is None

    run(check())


def request(left: asyncio.Event, store=None, **headers: str) -> Request:
    """A request whose client leaves when it is told to."""

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "app": SimpleNamespace(
            state=SimpleNamespace(context=SimpleNamespace(idempotent=IdempotentRequests(store)))
        ),
        "state": {"caller": SimpleNamespace(name="me"), "collection": "one", "tenant": "two"},
    }
    made = Request(scope, receive)
    made._body = b"{}"  # as if it was read
    return made


def test_a_search_is_given_up_when_its_client_leaves_and_when_the_server_gives_it_up():
    async def ended(how):
        left, given_up = asyncio.Event(), asyncio.Event()

        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

        asked = asyncio.create_task(unless_hung_up(request(left), work()))
        await asyncio.sleep(0.01)
        left.set() if how is ClientDisconnect else asked.cancel()
        with pytest.raises(how):
            await asked
        assert given_up.is_set()

    run(ended(ClientDisconnect))
    run(ended(asyncio.CancelledError))


def test_a_change_is_made_once_although_the_client_leaves_and_sends_it_again(tmp_path):
    async def check():
        left, made, store = asyncio.Event(), [], open_store(ServeSettings(data=tmp_path))

        async def work():
            left.set()
            await asyncio.sleep(0.01)
            made.append("undone")
            return made

        asked = request(left, store, **{"idempotency-key": "undo"})
        assert await carried_out(asked, work) == ["undone"]
        assert await carried_out(asked, work) == ["undone"]

    run(check())


def test_a_request_that_is_sent_twice_at_once_is_worked_out_once_and_leaves_nothing_in_memory(
    tmp_path,
):
    async def check():
        store, made, go_on = open_store(ServeSettings(data=tmp_path)), [], asyncio.Event()
        requests = IdempotentRequests(store)
        key = Key("me", "/search", "shop", "one", "key", b"body")

        async def work():
            made.append(1)
            await go_on.wait()
            return {"hits": "a" * 10_000}

        first, second = (asyncio.create_task(requests.once(key, work)) for _ in range(2))
        while not made:
            await asyncio.sleep(0.01)
        with pytest.raises(Conflict, match="another body"):
            await requests.once(replace(key, body=b"other"), work)
        first.cancel()  # the other still waits for it
        go_on.set()
        assert await second == {"hits": "a" * 10_000}
        assert await requests.once(key, work) == await second
        assert len(made) == 1 and requests._running == {} and requests._unwritten == []
        with pytest.raises(Conflict, match="another body"):
            await requests.once(replace(key, body=b"other"), work)
        store.close()

    run(check())


def test_a_request_that_all_who_sent_it_give_up_is_given_up(tmp_path):
    async def check():
        store, made, ended = open_store(ServeSettings(data=tmp_path)), [], []
        requests = IdempotentRequests(store)

        async def work():
            made.append(1)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(1)

        for count in (1, 2):
            key = Key("me", "/search", "shop", "one", "key", b"body")
            asked = asyncio.create_task(requests.once(key, work))
            while len(made) < count:
                await asyncio.sleep(0.01)
            asked.cancel()
            while len(ended) < count:
                await asyncio.sleep(0.01)
        store.close()

    run(check())


def test_what_comes_while_a_server_ends_is_refused(tmp_path):
    async def check():
        tenants = small_tenants(tmp_path)
        await tenants.start()
        ending = asyncio.create_task(tenants.stop())
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="ending") as refused:
            tenants.collection("tangram")
        assert refused.value.status == 503
        await ending

    run(check())


def test_a_tenant_that_cannot_be_written_keeps_no_other_from_it(tmp_path):
    async def check():
        async with started(tmp_path, save_seconds=0.01) as owner:
            loaded = owner.cache.loaded
            commit = owner.cache.rows.commit
            owner.cache.rows.commit = lambda change: (
                fail() if change.id == loaded["one"].id else commit(change)
            )
            for name in ("one", "two"):
                await owner.search(SearchRequest(name, name, [png(1)], 3, True, [[]]))
            while loaded["two"].changed_at is not None:
                await asyncio.sleep(0.01)
            assert loaded["one"].changed_at is not None
            await taught(owner, "three")
            await owner.learning.drained()
        async with started(tmp_path) as owner:
            return [(await owner.tenant(name))["batches"] for name in ("one", "two", "three")]

    def fail():
        raise RuntimeError("a bug")

    assert run(check()) == [0, 0, 1]


def test_bounds_hold_for_those_who_come_at_once(tmp_path):
    def one_of(answers):
        """What the one got who came first, which may be either; the other is told why not."""
        (first,) = (one for one in answers if isinstance(one, dict))
        (refused,) = (one for one in answers if one is not first)
        assert "as many as may be" in str(refused)
        return first

    async def check():
        async with started(tmp_path, known=1, snapshots=1) as owner:
            made = await asyncio.gather(
                *(owner.set_mode(name, "live") for name in ("one", "two")), return_exceptions=True
            )
            tenant = one_of(made)["tenant"]
            kept = await asyncio.gather(
                *(owner.snapshot(tenant, name) for name in "ab"), return_exceptions=True
            )
            name = one_of(kept)["name"]
            assert [one["name"] for one in await owner.snapshots(tenant)] == [name]
            assert await owner.cache.known() == 1

    run(check())


@pytest.mark.parametrize("asked", ["before", "meanwhile"])
def test_what_a_deleted_tenant_asked_is_not_learnt_by_the_next_of_its_name(asked, tmp_path):
    async def check():
        async with started(tmp_path) as owner:
            call = SearchRequest("one", "one", [png(1, 90)] * 3, 3, True, [[]] * 3)
            await owner.set_mode("one", "live")
            released = threading.Event()
            if asked == "meanwhile":
                owner.runtime.model.submit(released.wait)
            asking = asyncio.create_task(owner.search(call))
            while not (asking.done() if asked == "before" else len(owner.answering._asked)):
                await asyncio.sleep(0.01)
            owner.cache.rows.delete("one")  # as another process does
            await owner.follow()
            released.set()
            await asking
            assert owner.learning.pending("one") == 0

    run(check())


@pytest.mark.parametrize("frozen", ["find_answer", "keep_answers"])
def test_a_search_with_a_key_is_answered_though_the_store_is_frozen(frozen, monkeypatch):
    thawed = threading.Event()
    monkeypatch.setattr(idempotency, "PATIENCE", 0.05)
    monkeypatch.setattr(idempotency, "find_answer", lambda *_: None)
    monkeypatch.setattr(idempotency, frozen, lambda *_: thawed.wait())

    async def work():
        return {"hits": []}

    async def check():
        requests, keys = IdempotentRequests(None), [Key("me", "/", "a", "b", c, b"") for c in "cde"]
        found = asyncio.gather(*(requests.once(key, work) for key in keys))
        try:
            assert await asyncio.wait_for(found, 10) == [{"hits": []}] * 3
        finally:
            thawed.set()

    run(check())


def test_a_damaged_answer_under_a_key_is_worked_out_anew(tmp_path):
    async def check():
        store, key = open_store(ServeSettings(data=tmp_path)), Key("me", "/", "shop", "a", "k", b"")
        keep_answers(store, [(key, b'{"hits": \xc3}')])

        async def work():
            return {"hits": []}

        assert await IdempotentRequests(store).once(key, work) == {"hits": []}
        store.close()

    run(check())
