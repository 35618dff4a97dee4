"""What a Qdrant server is asked for that the client's own engine in a folder ignores."""

from contextlib import closing

import pytest
from new_collections import create
from same_as_memory import rows_of

from queryshift import Gallery
from queryshift.errors import BadInput

pytest.importorskip("qdrant_client")

from queryshift.galleries import qdrant
from queryshift.galleries.qdrant import Connection

pytestmark = pytest.mark.filterwarnings("ignore")  # of its local mode, about sizes
COUNT = 60


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
    assert asked("upsert") and all(options["wait"] is True for options in asked("upsert"))


@pytest.mark.parametrize(("version", "refused"), [("1.10.1", True), ("1.11.0", False)])
def test_the_oldest_server(gallery, tmp_path, asked, monkeypatch, version, refused):
    monkeypatch.setattr(Recorded, "version", version)
    address = f"qdrant://{tmp_path}/folder/items"
    if refused:
        with pytest.raises(BadInput, match=r"expected 1\.11 or later"):
            create(address, range(COUNT), rows_of(gallery)[:COUNT])
    else:
        create(address, range(COUNT), rows_of(gallery)[:COUNT]).close()
