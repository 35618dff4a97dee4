"""FAISS: indexes in files, searched in this process."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from new_collections import create_faiss as create
from same_as_memory import check_samples, rows_of
from tests.galleries.contract import GalleryContract

import queryshift as qs
from queryshift.errors import BadFile, BadInput, GalleryMismatch, NeedsVectors
from queryshift.galleries.memory import exact_search
from queryshift.retrieval.answer import FusedRanking
from queryshift.retrieval.uncertainty import LATEST
from toy import ToyEncoder, toy_gallery, toy_queries

faiss = pytest.importorskip("faiss", exc_type=ImportError)

from queryshift.galleries.faiss import Faiss  # noqa: E402
from queryshift.galleries.faiss import open as open_faiss  # noqa: E402

EXACT = ("Flat", "HNSW32", "IVF4,Flat", "IVF4,SQ8")


class FaissContract(GalleryContract):
    factory = "Flat"

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.files = (f"{tmp_path}/{number}" for number in range(100))

    def make(self, ids, vectors):
        return create(f"faiss:{next(self.files)}?nprobe=4", ids, vectors, self.factory)


class TestFlat(FaissContract):
    pass


class TestGraph(FaissContract):
    factory = "HNSW32"


class TestLists(FaissContract):
    factory = "IVF4,Flat"


class TestScalarQuantised(FaissContract):
    """Exact by ranking again, at this size."""

    factory = "IVF4,SQ8"


class TestProductQuantised(FaissContract):
    factory, exact = "IVF4,PQ4x4", False


@pytest.mark.parametrize("factory", EXACT)
def test_samples_are_fair(gallery, tmp_path, factory):
    check_samples(gallery, create(f"faiss:{tmp_path}/x", gallery.ids, rows_of(gallery), factory))


def test_an_index_without_ids_beside_it_is_known_by_its_own_numbers(gallery, tmp_path):
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(gallery.dimension))
    index.add_with_ids(rows_of(gallery), np.arange(100, 160))
    faiss.write_index(index, str(tmp_path / "mapped"))
    opened = open_faiss(f"faiss:{tmp_path}/mapped")
    assert opened.search(gallery.vectors[:2, 0], 1).ids == [[100], [101]]
    assert opened.known([99, 100, "100"]) == {100}
    faiss.write_index(faiss.downcast_index(index.index), str(tmp_path / "plain"))
    plain = Faiss(tmp_path / "plain")
    assert plain.search(gallery.vectors[:2, 0], 1).ids == [[0], [1]]
    assert plain.known([-1, 0, 59, 60, "3"]) == {0, 59}
    assert plain.find_exact(rows_of(gallery)[:1], 1)[0].ids == [0]
    assert plain.rows()[0] == list(range(60)) and opened.rows()[0] == list(range(100, 160))


def test_a_search_is_as_broad_as_the_address_says_and_as_it_has_hits(gallery, tmp_path):
    create(f"faiss:{tmp_path}/x", gallery.ids, rows_of(gallery), "HNSW32")
    opened = open_faiss(f"faiss:{tmp_path}/x?ef=20")
    assert [opened._parameters(wanted).efSearch for wanted in (5, 20, 50)] == [20, 20, 50]


class Noted:
    """An index that keeps how many hits it is asked for."""

    def __init__(self, index) -> None:
        self.index, self.wanted = index, []

    def __getattr__(self, name):
        return getattr(self.index, name)

    def search(self, queries, wanted, params):
        self.wanted.append(wanted)
        return self.index.search(queries, wanted, params=params)


@pytest.mark.parametrize(
    ("factory", "wanted"), [("Flat", [1, 3, 60]), ("SQ8", [10, 30, 60]), ("PQ4x4", [10, 30, 60])]
)
def test_ten_times_as_many_hits_of_a_compressed_index_are_ranked_again(
    gallery, tmp_path, factory, wanted
):
    opened = create(f"faiss:{tmp_path}/x", gallery.ids, rows_of(gallery), factory)
    opened._index = noted = Noted(opened._index)
    assert "ten times as many hits are ranked again" in " ".join(Faiss.__doc__.split())
    for count in (1, 3, 90):
        found = opened.find(rows_of(gallery)[:2], count)
        assert [len(hits.ids) for hits in found] == [min(count, 60)] * 2
    assert noted.wanted == wanted


def test_the_version_is_that_of_the_content(gallery, tmp_path):
    first, second, other = (
        create(f"faiss:{tmp_path}/{name}", ids, rows_of(gallery))
        for name, ids in (("a", gallery.ids), ("b", gallery.ids), ("c", gallery.ids[::-1]))
    )
    assert first.version == second.version != other.version


def test_what_cannot_be_used_is_refused_in_a_sentence(gallery, tmp_path):
    rows, path = rows_of(gallery), tmp_path / "index"
    with pytest.raises(BadFile, match="no FAISS index at"):
        Faiss(path)
    path.write_bytes(b"no index")
    with pytest.raises(BadFile, match="is no index that FAISS"):
        Faiss(path)
    faiss.write_index(faiss.index_factory(8, "Flat", faiss.METRIC_L1), str(path))
    with pytest.raises(GalleryMismatch, match="make its index again with cosine"):
        Faiss(path)
    with pytest.raises(BadInput, match="long ones come first"):
        create(f"faiss:{path}", gallery.ids, rows * 3)
    with pytest.raises(BadInput, match=r'no option "effort" in this address; known: ef, nprobe'):
        open_faiss(f"faiss:{path}?effort=3")
    with pytest.raises(BadInput, match="expected a whole number"):
        open_faiss(f"faiss:{path}?ef=much")


def test_compressed_vectors_need_the_floats_beside_them(gallery, tmp_path):
    create(f"faiss:{tmp_path}/pq", gallery.ids, rows_of(gallery), "PQ4x4")
    np.save(tmp_path / "pq.npy", rows_of(gallery)[1:])
    with pytest.raises(BadFile, match=r"expected float32 of shape \(60, 8\)"):
        Faiss(tmp_path / "pq")
    (tmp_path / "pq.npy").unlink()
    with pytest.raises(BadInput, match="put the vectors in float32 beside it"):
        Faiss(tmp_path / "pq")


def test_ids_beside_it_that_do_not_fit_are_refused(gallery, tmp_path):
    create(f"faiss:{tmp_path}/x", gallery.ids, rows_of(gallery))
    (tmp_path / "x.ids.json").write_text(json.dumps(["a"]))
    with pytest.raises(BadInput, match="got 1 ids for 60 candidates"):
        Faiss(tmp_path / "x")


def test_the_setting_for_flat_search_is_put_back(gallery, tmp_path):
    before = faiss.cvar.distance_compute_blas_threshold
    create(f"faiss:{tmp_path}/x", gallery.ids, rows_of(gallery)).search(gallery.vectors[:2, 0], 1)
    assert faiss.cvar.distance_compute_blas_threshold == before != 1


def test_hub_correction_over_an_exact_index_is_that_over_memory(tmp_path, monkeypatch):
    """Bit for bit where memory corrects the hits of one search too, as of a large gallery."""
    memory = toy_gallery(ToyEncoder(), 600)
    there = create(f"faiss:{tmp_path}/x", memory.ids, rows_of(memory))
    answers, learnt = [], []
    for gallery, whole in ((there, 0), (memory, 0), (memory, 600)):
        monkeypatch.setattr(exact_search, "WHOLE", whole)
        session = qs.Session(ToyEncoder(), gallery, qs.REST(lr=1e-2), hubs=qs.Hubs(depth=600))
        stream = [session.answer(list(batch)).top(10) for batch in toy_queries(6, 24, 600)]
        answers.append(torch.tensor([hits.ids for hits in stream]))
        learnt.append(session.state.adapted.values)
    assert torch.equal(answers[0], answers[1]) and torch.equal(learnt[0], learnt[1])
    plain = qs.Session(ToyEncoder(), there, qs.REST(lr=1e-2))
    uncorrected = [plain.answer(list(batch)).top(10).ids for batch in toy_queries(6, 24, 600)]
    assert not torch.equal(answers[0], torch.tensor(uncorrected))
    first = answers[0][..., 0], answers[2][..., 0]
    assert (first[0] == first[1]).float().mean() > 0.9


FULL_GALLERY = ("tent", "pl", "shot", "eata", "sar", "read", "come", "tsa")


@pytest.mark.parametrize("name", qs.METHODS)
def test_methods_over_the_whole_gallery_name_the_one_that_works(name, tmp_path):
    memory = toy_gallery(ToyEncoder(), 200)
    there = create(f"faiss:{tmp_path}/x", memory.ids, rows_of(memory))
    batch, method = list(toy_queries(1, 12, 200)[0]), qs.METHODS[name]()
    if name not in FULL_GALLERY:
        assert len(qs.Session(ToyEncoder(), there, method).answer(batch).top(3)) == 12
        return
    with pytest.raises(NeedsVectors, match=r"Refined\(method\), or use REST or TCR"):
        qs.Session(ToyEncoder(), there, method).answer(batch)
    if name == "tsa":
        with pytest.raises(NeedsVectors, match="TSA needs a gallery in memory"):
            qs.Session(ToyEncoder(), there, qs.Refined(method)).answer(batch)
        return
    session = qs.Session(ToyEncoder(), there, qs.Refined(method))
    assert len(session.answer(batch).top(3)) == 12


def test_source_and_adapted_answers_of_one_batch_come_from_two_searches(tmp_path, monkeypatch):
    memory = toy_gallery(ToyEncoder(), 600)
    there = create(f"faiss:{tmp_path}/x", memory.ids, rows_of(memory))
    monkeypatch.setattr(exact_search, "WHOLE", 0)
    answers = []
    for gallery in (there, memory):
        session = qs.Session(ToyEncoder(), gallery, lr=1e-5, hubs=None)
        session.restore(replace(session.state, chances=torch.ones(LATEST)))
        for batch in toy_queries(2, 24, 600):
            answer = session.answer(list(batch))
        assert isinstance(answer.ranking, FusedRanking)
        hits = answer.top(5)
        assert hits.vectors.shape[:2] == (24, 5)
        answers.append(hits.ids)
    assert answers[0] == answers[1]
