"""A server that ends while a tenant is being written loses nothing, and writes nothing twice."""

import asyncio
import threading

from queries_to_send import png

from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings


async def ended_while_saving(settings: ServeSettings) -> None:
    """End the tenants while a save waits behind another write, so that it has not begun."""
    tenants, busy = Service(settings, Metrics()), threading.Event()
    await tenants.start()
    other = asyncio.create_task(tenants.writer.write(busy.wait, 60))
    owner = tenants.collection("tangram")
    queries = [png(number, 60) for number in range(4)]
    await owner.search(SearchRequest("first", "request", queries, 3, True, [[]] * 4))
    await owner.learning.drained()
    tenant = owner.cache.loaded["first"]
    while not tenant.saving.locked():
        await asyncio.sleep(0.01)
    end = asyncio.create_task(tenants.stop())
    while not tenants._running[-1].done():  # what saves is cancelled
        await asyncio.sleep(0.01)
    busy.set()
    await asyncio.gather(other, end)


async def reread(settings: ServeSettings) -> tuple[dict, list[dict]]:
    tenants = Service(settings, Metrics())
    await tenants.start()
    owner = tenants.collection("tangram")
    found = await owner.tenant("first"), await owner.history("first", 0, 100)
    await tenants.stop()
    return found


def test_a_save_that_waits_when_the_server_ends_is_made_once(tmp_path):
    settings = ServeSettings(
        data=tmp_path,
        collections={"tangram": CollectionSettings(candidates=64, gather=4, mode="live")},
        tenants=TenantSettings(save_seconds=0.01),
    )
    asyncio.run(asyncio.wait_for(ended_while_saving(settings), 60))
    told, rows = asyncio.run(asyncio.wait_for(reread(settings), 60))
    assert told["queries"] == 4 and told["report"]["updates_in_force"] == 3
    assert [row["batch"] for row in rows] == [1]


def test_a_server_ends_though_another_process_changes_a_tenant_at_that_moment():
    async def followed(steps: int) -> bool:
        """Whether following ends that is cancelled some steps after it was told of a change."""
        service = Service.__new__(Service)
        service._collections, service._heard = {}, asyncio.Event()
        following = asyncio.create_task(service._keep_following())
        await asyncio.sleep(0.01)
        service._heard.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.wait([following], timeout=1)
        ended = following.done()
        following.cancel()
        return ended

    for steps in range(8):
        assert asyncio.run(followed(steps)), steps
