"""Lists and histories of tenants: what is in memory counts beside what is stored."""

import asyncio

import pytest
from queries_to_send import png

from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings

RARELY = TenantSettings(save_seconds=1000, save_batches=1000)


def with_owner(folder, work):
    """What work gives with a collection's owner that saves only when it is told to."""
    shop = CollectionSettings(candidates=16, gather=2, mode="live", guard=False)
    settings = ServeSettings(data=folder, collections={"tangram": shop}, tenants=RARELY)

    async def started():
        service = Service(settings, Metrics())
        await service.start()
        try:
            return await work(service.collection("tangram"))
        finally:
            await service.stop()

    return asyncio.run(asyncio.wait_for(started(), 20))


async def teach(owner, groups: int) -> None:
    for number in range(groups):
        queries = [png(2 * number, 90), png(2 * number + 1, 90)]
        await owner.search(SearchRequest("one", "id", queries, 3, True, [[]] * 2))
        while (await owner.tenant("one"))["pending"]:
            await asyncio.sleep(0)


def test_a_list_counts_what_is_not_stored_yet(tmp_path):
    async def work(owner):
        await teach(owner, 1)
        await owner.cache.save(owner.cache.loaded["one"])
        await teach(owner, 2)
        owner.cache.loaded["one"].record.last_seen = 4e9
        (row,) = await owner.tenants("", 10)
        return row, await owner.tenant("one")

    row, told = with_owner(tmp_path, work)
    assert row["queries"] == 6 and row["last_seen"].startswith("2096")
    for name in ("tenant", "mode", "queries", "last_seen", "updates", "drops", "delay"):
        assert row[name] == told[name], name


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_a_history_has_each_batch_once_stored_or_not(stored, tmp_path):
    async def work(owner):
        await teach(owner, stored)
        if stored:
            tenant = owner.cache.loaded["one"]
            await owner.cache.save(tenant)
            tenant.rows.clear()  # as in a process that has just read it
        await teach(owner, 3 - stored)
        return [
            [row["batch"] for row in await owner.history("one", since, limit)]
            for since, limit in ((0, 10), (1, 10), (2, 10), (3, 10), (0, 2), (1, 1))
        ]

    assert with_owner(tmp_path, work) == [[1, 2, 3], [2, 3], [3], [], [1, 2], [2]]
