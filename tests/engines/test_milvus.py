"""Milvus Lite in a file, and a Milvus server that is started and stopped here."""

import logging

import numpy as np
import pytest
import torch
from new_collections import create
from same_as_memory import (
    QUOTED,
    check_restart,
    check_samples,
    rows_of,
)
from servers import MilvusServer, wait_until
from tests.galleries.contract import GalleryContract

import queryshift as qs
from queryshift import Gallery
from queryshift.errors import BadInput, EngineLost, Error

pymilvus = pytest.importorskip("pymilvus")

from queryshift.galleries.engine import check_version  # noqa: E402
from queryshift.galleries.milvus import open as open_milvus  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of gRPC, protobuf and pandas


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """pymilvus logs every refusal with a traceback."""
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)


@pytest.fixture(scope="module")
def numbered(gallery):
    """Sixty candidates by number: Milvus knows no order but that of its keys."""
    return Gallery(list(range(len(gallery))), gallery.vectors)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = MilvusServer(tmp_path_factory.mktemp("milvus") / "server")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module", params=["lite", pytest.param("server", marks=pytest.mark.engine)])
def base(request, tmp_path_factory):
    """The address of an engine, without a collection."""
    if request.param == "server":
        return request.getfixturevalue("server").address
    pytest.importorskip("milvus_lite")
    return f"milvus://{tmp_path_factory.mktemp('lite')}/file.db"


@pytest.fixture(scope="module")
def collection(base, numbered):
    """The address of sixty candidates."""
    create(f"{base}/items", numbered.ids, rows_of(numbered)).close()
    return f"{base}/items"


@pytest.fixture
def engine(collection):
    opened = open_milvus(f"{collection}?consistency=Strong")
    yield opened
    opened.close()


class TestContract(GalleryContract):
    @pytest.fixture(autouse=True)
    def collections(self, base):
        names = (f"made_{id(self)}_{number}" for number in range(100))
        self.addresses = (f"{base}/{name}?consistency=Strong" for name in names)
        self.opened = []
        yield
        for gallery in self.opened:
            gallery.close()

    def make(self, ids, vectors):
        self.opened.append(create(next(self.addresses), ids, vectors))
        return self.opened[-1]


def test_samples_are_fair_and_come_again(numbered, engine):
    check_samples(numbered, engine)
    assert np.array_equal(engine.sample(5, 3), engine.sample(5, 3))


def test_quotes_in_ids_are_only_text(base, gallery):
    opened = create(f"{base}/quoted?consistency=Strong", QUOTED, rows_of(gallery)[: len(QUOTED)])
    assert opened.known([*QUOTED, 'x"] or id != "', 3]) == set(QUOTED)
    assert opened.search(gallery.vectors[: len(QUOTED), 0], 1).ids == [[one] for one in QUOTED]
    assert len(opened.sample(10, 0)) == len(QUOTED)
    opened.close()


def test_a_sample_reads_every_page(base, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(700, 4)).astype(np.float32)
    opened = create(f"{base}/paged?consistency=Strong", range(700), vectors)
    monkeypatch.setattr("queryshift.galleries.milvus.LARGEST", 100)
    pages = opened._pages(["id"], 100)
    assert [row["id"] for page in pages for row in page] == list(range(700))
    assert np.allclose(opened.sample(700, 0), vectors, atol=1e-6)
    opened.close()


def test_inserts_and_deletes_are_seen_by_the_next_search(base, gallery):
    rows, query = rows_of(gallery), gallery.vectors[2:3, 0]
    opened = create(f"{base}/changing?consistency=Strong", [1, 2], rows[:2])
    opened._connection.call("insert", "changing", data=[{"id": 3, "vector": rows[2]}])
    assert opened.search(query, 1).ids == [[3]] and opened.version.startswith("3 in ")
    opened._connection.call("delete", "changing", ids=[3])
    assert opened.search(query, 1).ids != [[3]] and opened.known([3]) == set()
    opened.close()


def test_an_hnsw_index_is_searched_broadly(base):
    vectors = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
    opened = create(f"{base}/graph?consistency=Strong", range(2000), vectors, "HNSW")
    memory = Gallery.from_vectors(range(2000), vectors)
    queries = memory.vectors[:20, 0]
    pairs = zip(opened.search(queries, 100).ids, memory.search(queries, 100).ids, strict=True)
    assert np.mean([len({*ours} & {*exact}) for ours, exact in pairs]) > 99
    opened.close()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", 'no collection "nothing"'),
        ("items?vector=id", 'has the float vector fields vector, got "id"'),
        ("items?limit=3", 'no option "limit"'),
        ("", "expected milvus://host:19530/collection"),
    ],
)
def test_another_collection_or_field(base, collection, path, message):
    with pytest.raises(BadInput, match=message):
        open_milvus(f"{base}/{path}")


def test_a_deadline_is_one_sentence(collection):
    gallery = open_milvus(collection)
    gallery.retries, gallery._connection._timeout = 0, 1e-6
    with pytest.raises(EngineLost, match=r"^Milvus [^\n]+ask again when the engine is back\.$"):
        for _ in range(100):  # a fast machine may answer within any deadline
            gallery.search(torch.eye(gallery.dimension)[:4], 10)
    gallery._connection._timeout = 10.0
    assert gallery.search(torch.eye(gallery.dimension)[:4], 3).positions.shape == (4, 3)
    gallery.close()


def test_metrics_that_rank_otherwise(base, gallery):
    rows = rows_of(gallery)
    with pytest.raises(BadInput, match="ranks by inner product and holds vectors of length 3"):
        create(f"{base}/long", range(len(rows)), rows * 3, metric="IP")
    create(f"{base}/unit", range(len(rows)), rows, metric="IP").close()
    with pytest.raises(BadInput, match="zero vector, which is near nothing"):
        create(f"{base}/zeros", range(len(rows)), rows * 0)


def test_a_collection_without_an_index(base, numbered):
    opened = create(f"{base}/bare", numbered.ids, rows_of(numbered))
    opened._connection.call("release_collection", "bare")
    opened._connection.call("drop_index", "bare", "vector")
    opened.close()
    with pytest.raises(BadInput, match="has no index, without which Milvus does not search"):
        open_milvus(f"{base}/bare")


@pytest.mark.parametrize("version", ["2.2.16", "unknown"])
def test_a_server_of_an_unknown_version(version):
    with pytest.raises(BadInput, match=f'this is Milvus "{version}", expected 2.3 or later'):
        check_version("Milvus", version, (2, 3), "upgrade the server")


def test_no_server_and_no_token_shown():
    with pytest.raises(EngineLost, match="is the server running") as lost:
        open_milvus("milvus://root:hunter2@127.0.0.1:1/items")
    assert "hunter2" not in str(lost.value)


@pytest.mark.engine
def test_the_version_of_a_server_tells_of_a_vector_that_was_changed_in_place(server, gallery):
    rows = rows_of(gallery)
    opened = create(f"{server.address}/versions?consistency=Strong", [1, 2], rows[:2])
    before = opened.version
    assert opened.version == before
    opened._connection.call("upsert", "versions", data=[{"id": 2, "vector": -rows[1]}])
    opened._connection.call("flush", "versions")
    assert opened.version != before and opened.count() == 2
    opened.close()


def test_an_index_is_checked_against_a_scan_of_all_vectors(base, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYSHIFT_HOME", str(tmp_path))
    vectors = np.random.default_rng(0).normal(size=(2500, 16)).astype(np.float32)
    opened = create(f"{base}/checked?consistency=Strong", range(2500), vectors, "HNSW")
    check = qs.check_recall(opened, np.random.default_rng(1).normal(size=(32, 16)), depth=10)
    assert check.enough and check.breadth == "ef=256" and not opened.exact
    opened.close()


@pytest.mark.engine
def test_a_killed_server_leaves_the_session_as_it_was(encoder, numbered, server, batches):
    create(f"{server.address}/killed", numbered.ids, rows_of(numbered)).close()
    opened = open_milvus(f"{server.address}/killed?consistency=Strong")
    check_restart(encoder, numbered, opened, batches, server)
    opened.close()


@pytest.mark.engine
def test_wrong_credentials_are_not_shown(server):
    """The last one: the server is started again, with users."""

    def refusal(password):
        with pytest.raises(Error) as refused:
            open_milvus(f"milvus://root:{password}@127.0.0.1:{server.port}/nothing")
        return str(refused.value)

    server.kill()
    server.environment["COMMON_SECURITY_AUTHORIZATIONENABLED"] = "true"
    server.start()
    wait_until(lambda: 'no collection "nothing"' in refusal("Milvus"), 180)  # its own password
    wrong = refusal("hunter2")
    assert "are the user and password right" in wrong and "hunter2" not in wrong
