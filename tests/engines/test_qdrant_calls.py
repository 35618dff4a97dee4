"""What a Qdrant server is asked for that the client's own engine in a folder ignores."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from new_collections import create
from same_as_memory import rows_of

from queryshift import Gallery
from queryshift.errors import BadInput, EngineLost
from queryshift.galleries.engine_writer import Layout

client = pytest.importorskip("qdrant_client")

from queryshift.galleries import qdrant  # noqa: E402
from queryshift.galleries.qdrant import Connection, QdrantWriter, read_address  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of its local mode, about sizes
COUNT = 60
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


class Recorded(Connection):
    """A folder's connection that is taken for a server's, and keeps its calls."""

    calls: list[tuple[str, dict]]
    version = "1.17.0"

    def __init__(self, *given):
        super().__init__(*given)
        self.remote = True

    def call(self, verb, *arguments, **options):
        self.calls.append((verb, options))
        if verb == "info":
            return type("Info", (), {"version": self.version})
        return super().call(verb, *arguments, **options)


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(Recorded, "calls", [], raising=False)
    monkeypatch.setattr(qdrant, "Connection", Recorded)

    def of(verb):
        return [options for name, options in Recorded.calls if name == verb]

    return of


@pytest.mark.parametrize(
    ("options", "params"),
    [("", (None, 256)), ("?ef=300", (None, 300)), ("?exact=1", (True, None))],
)
def test_a_search_uses_the_index_unless_it_is_to_be_exact(
    gallery, tmp_path, asked, options, params
):
    address = f"qdrant://{tmp_path}/folder/items"
    create(address, range(COUNT), rows_of(gallery)[:COUNT]).close()
    with closing(Gallery.open(f"{address}{options}")) as opened:
        opened.search(gallery.vectors[:1, 0], 3)
    (request,) = asked("query_batch_points")[-1]["requests"]
    assert ((request.params.exact or None), request.params.hnsw_ef) == params
    assert request.with_vector is True and request.limit >= 3


def test_counts_are_exact_and_what_is_written_is_there(gallery, tmp_path, asked):
    address = f"qdrant://{tmp_path}/folder/items"
    with closing(create(address, range(COUNT), rows_of(gallery)[:COUNT])) as opened:
        assert opened.count() == COUNT
    assert asked("count") and all(options == {"exact": True} for options in asked("count"))
    with closing(QdrantWriter(address)) as writer:
        assert writer.count() == COUNT
    assert all(options == {"exact": True} for options in asked("count"))
    assert asked("upsert") and all(options["wait"] is True for options in asked("upsert"))


def test_whether_ids_exist_is_asked_without_what_is_stored_of_them(gallery, tmp_path, asked):
    address = f"qdrant://{tmp_path}/folder/items"
    with closing(create(address, range(COUNT), rows_of(gallery)[:COUNT])) as opened:
        assert opened.known([3, COUNT]) == {3}
    (options,) = asked("retrieve")
    assert options["with_payload"] is False and options["with_vectors"] is False


@pytest.mark.parametrize(("version", "refused"), [("1.10.1", True), ("1.11.0", False)])
def test_the_oldest_server(gallery, tmp_path, asked, monkeypatch, version, refused):
    monkeypatch.setattr(Recorded, "version", version)
    address = f"qdrant://{tmp_path}/folder/items"
    if refused:
        with pytest.raises(BadInput, match=r"expected 1\.11 or later"):
            create(address, range(COUNT), rows_of(gallery)[:COUNT])
    else:
        create(address, range(COUNT), rows_of(gallery)[:COUNT]).close()


@pytest.mark.parametrize(
    ("address", "location", "key"),
    [
        ("qdrant://host/items", "http://host:6333", None),
        ("qdrant://key@host/items", "http://host:6333", "key"),
        ("qdrant://:key@host/items", "http://host:6333", "key"),
        ("qdrant://user:key@host:7/items?secure=1", "https://host:7", "key"),
        ("qdrant:///folder/items", "/folder", None),
    ],
)
def test_an_address_is_of_the_port_that_the_page_names_and_may_hold_a_key(address, location, key):
    found, collection, options = read_address(address)
    assert "qdrant://host:6333/collection" in PAGE.read_text(encoding="utf-8")
    assert (found, collection, options.get("key")) == (location, "items", key)


@pytest.mark.parametrize(
    ("key", "kept", "timeout", "told"),
    [
        ("", None, 10.0, {"api_key": None, "timeout": 10}),
        ("", "of the shell", 10.4, {"api_key": "of the shell", "timeout": 10}),
        ("given", "of the shell", 0.2, {"api_key": "given", "timeout": 1}),
        ("given", None, 60.0, {"api_key": "given", "timeout": 60}),
    ],
)
def test_a_server_is_told_the_key_and_the_timeout(monkeypatch, key, kept, timeout, told):
    made = []
    monkeypatch.setattr(client, "QdrantClient", lambda **how: made.append(how) or Failing(None))
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    if kept:
        monkeypatch.setenv("QDRANT_API_KEY", kept)
    Connection("http://host:6333", key, timeout).call("info")
    assert made == [{"url": "http://host:6333", "check_compatibility": False, **told}]


class Failing:
    """A client whose calls fail in one way, or succeed."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.closed = error, False

    def info(self):
        if self.error:
            raise self.error

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("status", "error", "closed"),
    [
        *((status, BadInput, False) for status in (400, 401, 404, 499)),
        *((status, EngineLost, True) for status in (399, 500, 503, None)),
    ],
)
def test_a_refusal_is_told_from_a_server_that_does_not_answer(monkeypatch, status, error, closed):
    answer = client.http.exceptions.UnexpectedResponse(status, "reason", b"", None)
    failing = Failing(answer)
    monkeypatch.setattr(client, "QdrantClient", lambda **_: failing)
    with pytest.raises(error, match=f"{status} reason"):
        Connection("http://host:6333", "", 1.0).call("info")
    assert failing.closed == closed


def test_many_points_are_written_in_parts(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(qdrant, "SENT", 2)
    with closing(QdrantWriter(f"qdrant://{tmp_path}/folder/items")) as writer:
        writer.prepare(Layout(5, True))
        writer.upsert(range(5), np.eye(5, dtype=np.float32))
        assert writer.count() == 5
    written = [[point.id for point in options["points"]] for options in asked("upsert")]
    assert written == [[0, 1], [2, 3], [4]]
