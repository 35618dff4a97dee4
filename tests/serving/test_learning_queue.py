"""Learning at saturation: each tenant in its turn, the newest queries, and how long they waited."""

import asyncio
from collections import Counter
from io import BytesIO
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from queryshift.encoders.prepared import PreparedItem
from queryshift.errors import BadInput
from queryshift.serving.answering.learning_queue import (
    MEASURES,
    LearningQueue,
    Taught,
    learn_group,
)
from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.collection import Collection
from queryshift.serving.metrics import Metrics
from queryshift.serving.service import Service
from queryshift.serving.settings import CollectionSettings, QueueSettings, ServeSettings
from queryshift.sessions.session import Session

GROUP = 2


def learnt(tenants: dict[str, int], updates: int, **settings):
    """What is learnt of tenants with so many groups each, that all come while one is learnt."""
    groups: list[tuple[str, list[str], float]] = []
    drops, done = Counter[str](), asyncio.Event()

    async def learn(tenant, group, waited):
        groups.append((tenant, [one.raw for one in group], waited))
        await asyncio.sleep(0.002)
        if len(groups) == updates:
            done.set()

    async def run():
        queues = QueueSettings(**settings)
        learning = LearningQueue(GROUP, queues, learn, lambda name: drops.update([name]), Metrics())
        running = asyncio.create_task(learning.run())
        for number in range(max(tenants.values())):
            for tenant, count in tenants.items():
                if number < count:
                    raws = [f"{number}.{place}" for place in range(GROUP)]
                    learning.gather(tenant, [Taught(raw, None, []) for raw in raws])
        await asyncio.wait_for(done.wait(), 10)
        running.cancel()

    asyncio.run(run())
    return groups, drops


def test_each_of_many_tenants_is_learnt_in_its_turn():
    tenants = {f"t{number}": 3 for number in range(200)}
    groups, _ = learnt(tenants, 400, updates_of_tenant=2)
    assert set(Counter(tenant for tenant, _, _ in groups).values()) == {2}
    assert len({tenant for tenant, _, _ in groups[:200]}) == 200


def test_one_who_floods_has_its_share_and_no_more():
    groups, drops = learnt({"loud": 500, "quiet": 2}, 4, updates_of_tenant=2)
    assert Counter(tenant for tenant, _, _ in groups) == {"loud": 2, "quiet": 2}
    assert drops == {"loud": 498}


def test_the_newest_queries_are_learnt_and_their_wait_is_told():
    groups, _ = learnt({"one": 9}, 2, updates_of_tenant=2)
    assert [raws[0] for _, raws, _ in groups] == ["7.0", "8.0"]
    assert 0 <= groups[0][2] < groups[1][2] < 5


def test_who_holds_most_bytes_gives_up_first():
    long = "x" * 2**18

    async def run():
        given_up = []
        queues = QueueSettings(updates_of_tenant=9, gathered_bytes=2**20)
        learning = LearningQueue(2, queues, None, given_up.append, Metrics())
        learning.gather("quiet", [Taught("small", None, [])])
        for _ in range(8):
            learning.gather("loud", [Taught(long, None, [])])
        return given_up, learning.pending("quiet"), learning.pending("loud")

    given_up, quiet, loud = asyncio.run(run())
    assert set(given_up) == {"loud"} and quiet == 1 and 0 < loud <= 4


def test_what_was_learnt_takes_no_more_bytes():
    long, given_up, groups = "x" * 2**18, [], []

    async def learn(tenant, group, waited):
        groups.append(tenant)

    async def run():
        queues = QueueSettings(gathered_bytes=2**20)
        learning = LearningQueue(2, queues, learn, given_up.append, Metrics())
        running = asyncio.create_task(learning.run())
        for _ in range(6):
            learning.gather("one", [Taught(long, None, []), Taught(long, None, [])])
            await asyncio.wait_for(learning.drained(), 10)
        running.cancel()

    asyncio.run(run())
    assert groups == ["one"] * 6 and given_up == []


def test_queries_that_gather_wait_or_are_learnt_are_pending():
    seen = []

    async def run():
        async def learn(tenant, group, waited):
            seen.append((learning.pending("one"), learning.pending("other")))

        learning = LearningQueue(GROUP, QueueSettings(), learn, lambda name: None, Metrics())
        learning.gather("one", [Taught(str(number), None, []) for number in range(5)])
        learning.gather("other", [Taught("a", None, [])])
        seen.append((learning.pending("one"), learning.pending("other")))
        running = asyncio.create_task(learning.run())
        await asyncio.wait_for(learning.drained(), 10)
        seen.append((learning.pending("one"), learning.pending("other")))
        running.cancel()

    asyncio.run(run())
    assert seen == [(5, 1), (5, 1), (3, 1), (1, 1)]


def test_agreement_is_the_share_of_first_places_that_both_answers_have():
    class Ranked:
        def __init__(self, places, source=None):
            self.places, self.source = places, source

        def top(self, count):
            return SimpleNamespace(positions=torch.tensor(self.places)[:, :count])

    answer = Ranked([[1, 2], [3, 4], [5, 6], [7, 8]], Ranked([[1, 3], [4, 3], [5, 7], [7, 9]]))
    stats = SimpleNamespace(queries=4, adapted=True, restart=None)
    for name in MEASURES:
        setattr(stats, name, 0.5)
    session = SimpleNamespace(answer=lambda items, **more: answer, stats=lambda: stats)
    row = learn_group(session, str, [Taught("a", None, [])])
    assert row is not None and row["agreement"] == 0.75 and row["queries"] == 4
    assert learn_group(session, str, []) is None


def test_large_images_are_made_small_before_the_next_is_decoded(tmp_path, monkeypatch):
    """Sixteen files of 100 KB each can be 1.5 GB of pixels."""
    file, learnt = BytesIO(), []
    Image.new("RGB", (400, 300)).save(file, "PNG")
    tangram = {"tangram": CollectionSettings(candidates=64, gather=2, mode="live")}

    def answer(session, items, **more):
        learnt.extend(items)
        raise BadInput("seen")

    async def check():
        service = Service(ServeSettings(data=tmp_path, collections=tangram), Metrics())
        await service.start()
        owner, queries = service.collection("tangram"), [file.getvalue()] * 2
        monkeypatch.setattr(Session, "answer", answer)
        await owner.search(SearchRequest("one", "one", queries, 3, True, [[]] * 2))
        await owner.learning.drained()
        monkeypatch.setattr(Collection, "measured", lambda self, items: learnt.extend(items))
        with pytest.raises(TypeError):  # nothing was measured
            await owner.set_reference(queries)
        await service.stop()

    asyncio.run(check())
    assert [type(item) for item in learnt] == [PreparedItem] * 4
