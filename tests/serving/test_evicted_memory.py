"""Tenants that were sent to disk leave nothing in memory, without Python's search for cycles."""

import asyncio
import gc
import weakref
from contextlib import contextmanager

from queries_to_send import png

from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, ServeSettings, TenantSettings


@contextmanager
def without_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def asked(settings: ServeSettings) -> list[weakref.ref]:
    """Sessions of three tenants, of which one fits into memory, after all of them have learnt."""
    tenants, sessions = Service(settings, Metrics()), []
    await tenants.start()
    owner = tenants.collection("tangram")
    for name in ("first", "second", "third"):
        queries = [png(number, 60) for number in range(4)]
        await owner.search(SearchRequest(name, name, queries, 3, True, [[]] * 4))
        await owner.learning.drained()
        sessions.append(weakref.ref(owner.cache.loaded[name].session))
    while len(owner.cache.loaded) > 1:
        await asyncio.sleep(0.01)
    await tenants.stop()
    return sessions


def test_evicted_tenants_are_freed_at_once(tmp_path):
    settings = ServeSettings(
        data=tmp_path,
        collections={"tangram": CollectionSettings(candidates=64, gather=4, mode="live")},
        tenants=TenantSettings(loaded=1),
    )
    with without_collection():
        first, second, _ = asyncio.run(asyncio.wait_for(asked(settings), 60))
        assert first() is None and second() is None
