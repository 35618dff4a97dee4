"""Qdrant Edge: Qdrant's own segments in this process."""

from uuid import UUID

import numpy as np
import pytest
from new_collections import create_edge as create
from same_as_memory import check_samples, rows_of
from tests.galleries.contract import GalleryContract

import queryshift as qs
from queryshift import Gallery
from queryshift.errors import BadFile, BadInput, GalleryMismatch

edge = pytest.importorskip("qdrant_edge")

from queryshift.galleries.qdrant import open_edge  # noqa: E402


@pytest.fixture(scope="module")
def numbered(gallery):
    return Gallery(list(range(len(gallery))), gallery.vectors)


@pytest.fixture
def opened():
    """A list whose galleries are closed when the test ends."""
    galleries = []
    yield galleries
    for one in galleries:
        one.close()


class TestContract(GalleryContract):
    """Of inner products: for cosines Qdrant scales vectors anew, to another last bit."""

    indexed = False

    @pytest.fixture(autouse=True)
    def folders(self, tmp_path, opened):
        self.addresses = (f"qdrant-edge:{tmp_path}/{number}" for number in range(100))
        self.opened = opened

    def make(self, ids, vectors):
        self.opened.append(create(next(self.addresses), ids, vectors, "Dot", self.indexed))
        return self.opened[-1]

    test_text_ids_with_quotes_are_ids_as_others = None  # whole numbers and UUIDs are all it has


class TestContractOfAGraph(TestContract):
    """Exact at this size, where a search of 256 sees all."""

    indexed = True

    def test_it_has_an_index(self, gallery):
        assert not gallery.exact and str(gallery.search_effort) == "ef=256"


def test_cosines_and_samples(numbered, tmp_path, opened):
    there = create(f"qdrant-edge:{tmp_path}/shard", numbered.ids, rows_of(numbered))
    opened.append(there)
    check_samples(numbered, there)
    queries = numbered.vectors[:5, 0]
    assert there.search(queries, 5).ids == numbered.search(queries, 5).ids


def test_the_version_tells_of_a_vector_that_was_changed_in_place(numbered, tmp_path, opened):
    there = create(f"qdrant-edge:{tmp_path}/shard", numbered.ids, rows_of(numbered))
    opened.append(there)
    before = there.version
    assert there.version == before
    moved = edge.Point(3, (-rows_of(numbered)[3]).tolist())
    there._shard.update(edge.UpdateOperation.upsert_points([moved]))
    assert there.version != before and there.count() == len(numbered)


def test_uuids_and_named_vectors(gallery, tmp_path, opened):
    ids = [str(UUID(int=number)) for number in range(5)]
    address = f"qdrant-edge:{tmp_path}/shard?vector=picture"
    opened.append(create(address, ids, rows_of(gallery)[:5]))
    assert opened[0].search(gallery.vectors[:2, 0], 1).ids == [[ids[0]], [ids[1]]]
    assert opened[0].known([ids[3], str(UUID(int=9)), "it's", -1]) == {ids[3]}
    with pytest.raises(BadInput, match='has no vector "sound"; there is picture'):
        open_edge(f"qdrant-edge:{tmp_path}/shard?vector=sound")


def test_an_index_is_checked_and_widened(tmp_path, opened, monkeypatch):
    monkeypatch.setenv("QUERYSHIFT_HOME", str(tmp_path / "home"))
    vectors = np.random.default_rng(0).normal(size=(3000, 24)).astype(np.float32)
    address = f"qdrant-edge:{tmp_path}/shard"
    create(address, range(3000), vectors, indexed=True).close()
    opened.append(qs.Gallery.open(f"{address}?ef=10"))
    check = qs.check_recall(opened[0], np.random.default_rng(1).normal(size=(64, 24)), depth=10)
    assert 0.3 < check.recall < 0.97 and check.breadth == "ef=10"
    assert check.advice.startswith('add "ef=')


def test_what_cannot_be_used_is_refused(gallery, tmp_path, opened):
    rows, base = rows_of(gallery), f"qdrant-edge:{tmp_path}"
    with pytest.raises(BadFile, match="no shard of Qdrant Edge"):
        open_edge(f"{base}/nothing")
    with pytest.raises(GalleryMismatch, match='the metric "Manhattan", expected cosine'):
        create(f"{base}/city", range(60), rows, "Manhattan")
    with pytest.raises(BadInput, match="long ones come first"):
        create(f"{base}/long", range(60), rows * 3, "Dot")
    with pytest.raises(BadInput, match="zero vector"):
        create(f"{base}/zeros", range(60), rows * np.float32(0))
    opened.append(create(f"{base}/open", range(60), rows))
    with pytest.raises(BadFile, match="close it where it is open"):
        open_edge(f"{base}/open")
