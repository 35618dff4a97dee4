"""How broadly an index is searched unless told otherwise, as docs/engines.md says; and when not."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from new_collections import create, create_edge, create_faiss

from queryshift.galleries import elasticsearch, qdrant
from queryshift.galleries.engine_writer import Layout
from queryshift.galleries.milvus import MilvusWriter
from queryshift.galleries.postgres import postgres_gallery

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
DRAWN = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
VECTORS = DRAWN / np.linalg.norm(DRAWN, axis=1, keepdims=True)
IDS = list(range(80))


def test_the_page_says_so():
    assert "`ef` (default 256)" in PAGE and "`nprobe` (64; PostgreSQL: `probes`)" in PAGE


@pytest.mark.parametrize(
    ("factory", "effort"), [("HNSW8", "ef=256"), ("IVF70,Flat", "nprobe=64"), ("Flat", "None")]
)
def test_faiss(factory, effort, tmp_path):
    pytest.importorskip("faiss")
    opened = create_faiss(f"faiss:{tmp_path}/index", IDS, VECTORS, factory)
    assert str(opened.search_effort) == effort and opened.exact == (effort == "None")


@pytest.mark.filterwarnings("ignore")  # of Milvus Lite
@pytest.mark.parametrize(
    ("index", "effort"), [("HNSW", "ef=256"), ("IVF_FLAT", "nprobe=64"), ("FLAT", "None")]
)
def test_milvus(index, effort, tmp_path):
    pytest.importorskip("milvus_lite")
    opened = create(f"milvus://{tmp_path}/file.db/items", IDS, VECTORS, index)
    assert str(opened.search_effort) == effort and opened.exact == (effort == "None")
    opened.close()


@pytest.mark.parametrize(
    ("index", "params"),
    [("hnsw", {"M": 32, "efConstruction": 256}), ("exact", {}), ("IVF_FLAT", {})],
)
def test_only_a_graph_of_milvus_is_made_with_settings_of_a_graph(index, params, tmp_path):
    pytest.importorskip("milvus_lite")
    writer, made = MilvusWriter(f"milvus://{tmp_path}/file.db/items"), []
    call = writer._connection.call

    def noted(verb, *given, **more):
        if verb != "create_collection":
            return call(verb, *given, **more)
        made.extend(one.to_dict() for one in more["index_params"])

    writer._connection.call = noted
    writer.make(Layout(8, True, index))
    writer.close()
    ((made,),) = [made]
    assert made["index_type"] == {"hnsw": "HNSW", "exact": "FLAT"}.get(index, index)
    assert made["metric_type"] == "COSINE"
    assert {name: made[name] for name in ("M", "efConstruction") if name in made} == params


class OnAServer(qdrant.Connection):
    """A folder, which looks as a server does."""

    def __init__(self, *given):
        super().__init__(*given)
        self.remote = True

    def check_version(self):
        """A folder has none."""


@pytest.mark.filterwarnings("ignore")  # of Qdrant's local mode
def test_qdrant(tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client")
    create(f"qdrant://{tmp_path}/items", IDS, VECTORS).close()
    for connection, exact, effort in (
        (qdrant.Connection, False, "None"),  # a folder has no index
        (OnAServer, False, "ef=256"),
        (OnAServer, True, "None"),
    ):
        monkeypatch.setattr(qdrant, "Connection", connection)
        how = {"exact": True} if exact else {}
        opened = qdrant.Qdrant(str(tmp_path), "items", **how)
        assert str(opened.search_effort) == effort and opened.exact == (effort == "None")
        opened.close()


@pytest.mark.parametrize(("indexed", "effort"), [(True, "ef=256"), (False, "None")])
def test_qdrant_edge(indexed, effort, tmp_path):
    pytest.importorskip("qdrant_edge")
    opened = create_edge(f"qdrant-edge:{tmp_path}/shard", IDS, VECTORS, indexed=indexed)
    assert str(opened.search_effort) == effort and opened.exact == (effort == "None")
    opened.close()


@pytest.mark.parametrize(
    ("index", "effort"), [("hnsw", "ef=256"), ("ivfflat", "probes=64"), ("", "None")]
)
def test_postgres(index, effort, monkeypatch):
    asked, table = [], SimpleNamespace(dimension=8, origin=None, index=index, metric="cosine")
    module = postgres_gallery
    monkeypatch.setattr(module, "Connection", lambda _, settings, timeout: asked.append(settings))
    monkeypatch.setattr(module, "describe", lambda *_: table)
    monkeypatch.setattr(module.Postgres, "_check_stored", lambda *_: None)
    monkeypatch.setattr(module.Postgres, "count", lambda _: 10_000)
    opened = module.Postgres("postgresql://host/db", "items")
    assert str(opened.search_effort) == effort and opened.exact == (effort == "None")
    assert (asked[0]["hnsw.ef_search"], asked[0]["ivfflat.probes"]) == (256, 64)
    if not index:
        monkeypatch.setattr(module.Postgres, "count", lambda _: 10_001)
        with pytest.warns(UserWarning, match="has no index"):
            module.Postgres("postgresql://host/db", "items")


def test_elasticsearch(monkeypatch):
    kind = elasticsearch.Elasticsearch
    monkeypatch.setattr(kind, "_about", lambda _: {"dims": 8})
    monkeypatch.setattr(kind, "_check_stored", lambda *_: None)
    opened = kind("http://host:9200", "items", "embedding")
    assert str(opened.search_effort) == "ef=256" and not opened.exact
