"""Qdrant, through its client's own engine in a folder."""

from uuid import UUID

import numpy as np
import pytest
from new_collections import create
from same_as_memory import check_samples, rows_of
from tests.galleries.contract import GalleryContract

from queryshift import Gallery
from queryshift.errors import BadInput, EngineLost, GalleryMismatch

pytest.importorskip("qdrant_client")

from queryshift.galleries.qdrant import can_be_an_id
from queryshift.galleries.qdrant import open as open_qdrant

pytestmark = pytest.mark.filterwarnings("ignore")  # of its local mode, about sizes


@pytest.fixture(scope="module")
def numbered(gallery):
    return Gallery(list(range(len(gallery))), gallery.vectors)


class TestContract(GalleryContract):
    """Of inner products: for cosines Qdrant scales vectors anew, to another last bit."""

    @pytest.fixture(autouse=True)
    def folders(self, tmp_path):
        self.addresses = (f"qdrant://{tmp_path}/{number}/items" for number in range(100))
        self.opened = []
        yield
        for gallery in self.opened:
            gallery.close()

    def make(self, ids, vectors):
        self.opened.append(create(next(self.addresses), ids, vectors, metric="Dot"))
        return self.opened[-1]

    def test_text_ids_with_quotes_are_ids_as_others(self, memory):
        with pytest.raises(BadInput, match="the only ids that Qdrant has"):
            self.make(["it's"], memory.vectors[:1, 0].numpy())


def test_cosines_and_samples(numbered, tmp_path):
    opened = create(f"qdrant://{tmp_path}/folder/items", numbered.ids, rows_of(numbered))
    check_samples(numbered, opened)
    queries = numbered.vectors[:5, 0]
    assert opened.search(queries, 5).ids == numbered.search(queries, 5).ids
    opened.close()


def test_uuids_and_named_vectors(gallery, tmp_path):
    ids = [str(UUID(int=number)) for number in range(5)]
    opened = create(f"qdrant://{tmp_path}/folder/items?vector=picture", ids, rows_of(gallery)[:5])
    assert opened.search(gallery.vectors[:2, 0], 1).ids == [[ids[0]], [ids[1]]]
    assert opened.known([ids[3], str(UUID(int=9)), "it's", -1]) == {ids[3]}
    drawn = opened.sample(3, 0)
    assert drawn.shape == (3, 8) and np.allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
    opened.close()
    with pytest.raises(BadInput, match='has no vector "sound"; there is picture'):
        open_qdrant(f"qdrant://{tmp_path}/folder/items?vector=sound")


@pytest.mark.parametrize(
    ("one", "possible"),
    [
        *((0, True), (-1, False), (2**64 - 1, True), (2**64, False)),
        *((str(UUID(int=7)), True), (str(UUID(int=10)).upper(), False), ("7", False)),
    ],
)
def test_ids_are_whole_numbers_of_64_bits_and_uuids(one, possible):
    assert can_be_an_id(one) == possible


def test_what_cannot_be_used_is_refused(gallery, tmp_path):
    rows, base = rows_of(gallery), f"qdrant://{tmp_path}/folder"
    with pytest.raises(BadInput, match='no collection "nothing"'):
        open_qdrant(f"{base}/nothing")
    with pytest.raises(BadInput, match="names no collection"):
        open_qdrant("qdrant://host:6333")
    with pytest.raises(GalleryMismatch, match='the metric "Manhattan", expected cosine'):
        create(f"{base}/city", range(60), rows, metric="Manhattan")
    with pytest.raises(BadInput, match="long ones come first"):
        create(f"{base}/long", range(60), rows * 3, metric="Dot")
    with pytest.raises(BadInput, match="zero vector"):
        create(f"{base}/zeros", range(60), rows * np.float32(0))


def test_no_server_and_no_key_shown():
    with pytest.raises(EngineLost, match="is the server running") as lost:
        open_qdrant("qdrant://:hunter2@127.0.0.1:1/items")
    assert "hunter2" not in str(lost.value)
