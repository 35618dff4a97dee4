"""How a collection adapts: as a bare session does, or as its file says, checked at the start."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from queries_to_send import png

import queryshift as qs
from queryshift.lab import tangram
from queryshift.serving.answering.search import SearchRequest
from queryshift.serving.collection import open_collection
from queryshift.serving.collection_service import CollectionService
from queryshift.serving.metrics import Metrics
from queryshift.serving.runtime import Runtime
from queryshift.serving.settings import CollectionSettings, ServeSettings


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A gallery file and a FAISS index of the same captions."""
    faiss = pytest.importorskip("faiss")
    folder = tmp_path_factory.mktemp("galleries")
    captions = [tangram.captions(scene)[0] for scene in tangram.scenes("test", 32)]
    gallery = qs.Gallery.build(qs.load("tangram")["text"], captions)
    gallery.save(folder / "captions.gallery")
    index = faiss.IndexFlatIP(gallery.dimension)
    index.add(gallery.vectors[:, 0].numpy())
    faiss.write_index(index, str(folder / "captions.faiss"))
    return folder


def opened(files, **settings):
    return open_collection("shop", CollectionSettings(**settings), files)


@pytest.mark.parametrize("address", ["captions.gallery", "faiss:captions.faiss"])
def test_without_a_method_it_runs_what_a_bare_session_runs(files, address, monkeypatch):
    monkeypatch.chdir(files)
    made = opened(files, gallery=address)
    session, bare = made.session(), qs.Session(made.reader, made.gallery)
    assert session.method == bare.method
    assert session.settings == replace(bare.settings, history=session.settings.history)
    assert made.about()["method"] == bare.method.name


def test_the_default_and_hub_correction_alone_are_names(files, monkeypatch):
    monkeypatch.chdir(files)
    made = [opened(files, gallery="captions.gallery", method=name) for name in (None, "default")]
    assert made[0].session().settings == made[1].session().settings
    assert made[0].method == made[1].method
    alone = opened(files, gallery="captions.gallery", method="frozen+hubs")
    assert alone.method.name == "frozen" and alone.hubs == qs.Hubs()


def test_vectors_without_a_method_are_corrected_for_hubs_and_nothing_adapts(files):
    made = opened(files, gallery=str(files / "captions.gallery"), model="vectors", queries="vector")
    assert made.about()["method"] == "frozen" and made.about()["hubs"] is True


def test_a_named_method_has_a_guard_unless_the_file_says_so(files):
    where = {"gallery": str(files / "captions.gallery"), "method": "rest"}
    plain, bare = opened(files, **where), opened(files, **where, guard=False)
    assert plain.session().settings.guard == qs.Guard() and plain.hubs is None
    assert bare.session().settings.guard is None and bare.hubs is None


def test_without_a_guard_and_a_method_nothing_else_is_on(files):
    made = opened(files, gallery=str(files / "captions.gallery"), guard=False)
    bare = qs.Session(made.reader, made.gallery, guard=None)
    session = made.session()
    assert session.settings == replace(bare.settings, history=session.settings.history)
    assert session.settings.hubs is None and made.about()["hubs"] is False


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gallery": "faiss:captions.faiss", "method": "tent"}, "Refined"),
        ({"gallery": "faiss:captions.faiss", "method": "tsa"}, "memory"),
        (
            {
                "gallery": "captions.gallery",
                "model": "vectors",
                "queries": "vector",
                "method": "rest",
            },
            "Frozen",
        ),
    ],
)
def test_a_method_that_could_not_learn_is_refused_at_the_start(files, settings, told, monkeypatch):
    monkeypatch.chdir(files)
    with pytest.raises(qs.Error, match=f"collections.shop cannot run the method .*{told}"):
        opened(files, **settings)


@dataclass(frozen=True, kw_only=True)
class Broken(qs.REST):
    """Fails at what it learns from."""

    def loss(self, forward, memory):
        raise qs.Error("there is nothing to learn from.")


def test_a_group_that_cannot_be_learnt_costs_no_answer_and_is_an_event(files, tmp_path):
    plain = opened(files, gallery=str(files / "captions.gallery"), gather=4, guard=False)
    metrics = Metrics()

    async def asked():
        collection = replace(plain, method=Broken())
        runtime = Runtime(ServeSettings(data=tmp_path), metrics)
        owner = CollectionService(collection, runtime)
        running = asyncio.gather(owner.run(), runtime.run())
        queries = [png(number) for number in range(4)]
        told = await owner.search(SearchRequest("one", "id", queries, 3, True, [[]] * 4))
        while not (report := await owner.tenant("one"))["guard"]["events"]:
            await asyncio.sleep(0.01)
        running.cancel()
        return told, report["guard"]["events"]

    told, events = asyncio.run(asyncio.wait_for(asked(), 60))
    assert [len(answer["hits"]) for answer in told["answers"]] == [3] * 4
    assert events[0]["event"] == "failed" and "nothing to learn from" in events[0]["detail"]
    assert b'failed_updates_total{collection="shop"} 1.0' in metrics.text()


@pytest.mark.parametrize(("own", "used"), [(None, "cuda:1"), ("cpu", "cpu")])
def test_a_model_runs_where_its_collection_says_else_where_the_server_does(
    own, used, tmp_path, monkeypatch
):
    class Asked(Exception):
        pass

    def load(name, device):
        raise Asked(device)

    monkeypatch.setattr("queryshift.serving.collection.load", load)
    with pytest.raises(Asked, match=used):
        open_collection("tangram", CollectionSettings(device=own), tmp_path, device="cuda:1")
