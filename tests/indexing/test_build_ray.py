"""Galleries built on a Ray cluster of two nodes, one of which is killed."""

import os
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from building import HERE, MODEL, TEXTS, check_rows, journal_lines, table

import queryshift as qs
from queryshift.errors import BadInput
from queryshift.indexing import BuildSettings, build_gallery
from ray_nodes import two_nodes

ray = pytest.importorskip("ray")
sys.path.append(str(HERE.parent / "engines"))

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cluster(folder, monkeypatch):
    """Two nodes of one processor each; a batch takes half a second."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *sys.path]))
    monkeypatch.setenv("SLOW_S", "0.5")
    monkeypatch.setenv("NODES_SEEN", str(folder / "nodes"))
    cluster = two_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def kill_a_node(cluster, folder: Path, shards: int) -> threading.Thread:
    """Once so many shards are in the journal, the second node dies."""

    def wait_and_kill() -> None:
        while journal_lines(folder) <= shards:
            time.sleep(0.05)
        (node,) = cluster.worker_nodes
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=wait_and_kill, daemon=True)
    thread.start()
    return thread


def test_a_node_dies_and_every_row_is_there_once(folder, cluster):
    items, settings = table(folder), BuildSettings(shard_size=5, ray=cluster.address)
    killer = kill_a_node(cluster, folder, shards=2)
    result = build_gallery(MODEL, items, "gallery.parquet", settings)
    killer.join(30)
    assert len(set((folder / "nodes").read_text().split())) == 2
    assert not cluster.worker_nodes and not killer.is_alive()
    assert (result.rows, result.bad) == (100, ())
    gallery = qs.Gallery.open("gallery.parquet")
    assert gallery.ids == [f"c{number}" for number in range(100)]
    check_rows(gallery.ids, gallery.vectors[:, 0])


def test_tasks_write_into_an_engine_and_name_what_is_wrong(folder, cluster):
    psycopg = pytest.importorskip("psycopg")
    from postgres_server import PostgresServer

    server = PostgresServer()
    server.start()
    try:
        address = f"{server.address}?table=rayed"
        texts = [*TEXTS[:30], "refused"]
        settings = BuildSettings(shard_size=5, ray=cluster.address)
        killer = kill_a_node(cluster, folder, shards=1)
        result = build_gallery(MODEL, table(folder, texts), address, settings)
        killer.join(30)
        assert result.rows == 30 and [row.id for row in result.bad] == ["c30"]
        with closing(psycopg.connect(server.address)) as connection:
            rows = connection.execute("SELECT id FROM rayed").fetchall()
        assert sorted(rows) == sorted((f"c{number}",) for number in range(30))
        strict = BuildSettings(shard_size=5, ray=cluster.address, strict=True)
        with pytest.raises(BadInput, match="item 'c30'"):
            build_gallery(MODEL, folder / "captions.jsonl", "strict.safetensors", strict)
    finally:
        server.stop()
