"""Targets by their address, and what an engine's collection must still hold of a stopped build."""

import sys
from pathlib import Path

import pytest
import torch

from queryshift.errors import BadInput, EngineLost, MissingExtra
from queryshift.galleries.engine_writer import Layout
from queryshift.indexing import targets
from queryshift.indexing.journal import BadRow, Receipt
from queryshift.indexing.targets import ASSEMBLERS, EngineTarget, FileTarget, target_for

LAYOUT = Layout(4, False)


class Collection:
    """A writer into a collection in memory."""

    def __init__(self, rows: int | None) -> None:
        self.rows, self.lost, self.tries = rows, 0, 0

    def prepare(self, layout):
        there = self.rows is not None
        self.rows = self.rows or 0
        return there

    def count(self):
        return self.rows

    def finish(self, layout):
        pass

    def upsert(self, ids, vectors):
        self.tries += 1
        if self.tries <= self.lost:
            raise EngineLost("gone")
        self.rows += len(ids)


def over(monkeypatch, collection: Collection) -> EngineTarget:
    monkeypatch.setattr(targets, "WRITERS", {"qdrant": lambda _: collection})
    return EngineTarget("qdrant://host/items")


def receipts(*rows: int) -> list[Receipt]:
    bad = (BadRow("a", "it is empty."),)
    return [Receipt(shard, count, bad) for shard, count in enumerate(rows)]


@pytest.mark.parametrize(
    ("to", "anywhere"),
    [
        ("qdrant://host/items", True),
        ("milvus://host:19530/items", True),
        ("postgresql://host/db?table=items", True),
        ("postgresql:///db?host=/run/postgresql&table=items", True),  # a socket of a server
        ("qdrant:///folder/items", False),
        ("milvus:///folder/file.db/items", False),
        ("items.safetensors", False),
        ("faiss:items.faiss", False),
    ],
)
def test_any_process_can_write_to_a_server_and_only_one_to_a_file(tmp_path, to, anywhere):
    assert target_for(to, tmp_path).workers_write is anywhere


@pytest.mark.parametrize(
    ("to", "path", "kind"),
    [
        ("2024:1.safetensors", "2024:1.safetensors", ".safetensors"),
        ("items.GALLERY", "items.GALLERY", ".gallery"),
        ("faiss.parquet", "faiss.parquet", ".parquet"),
        ("faiss:items.faiss?nprobe=4", "items.faiss", "faiss"),
    ],
)
def test_a_file_is_known_by_its_ending_or_as_faiss(tmp_path, to, path, kind):
    target = target_for(to, tmp_path)
    assert (target.path, target._assemble) == (Path(path), ASSEMBLERS[kind])


@pytest.mark.parametrize("to", ["faiss", "items", "a:b"])
def test_a_file_of_another_kind_is_refused(tmp_path, to):
    with pytest.raises(BadInput, match="expected a file that ends in"):
        target_for(to, tmp_path)


@pytest.mark.parametrize(
    ("stored", "rows", "lost"),
    [
        (None, (10, 10), {0, 1}),  # dropped meanwhile
        (19, (10, 10), {0, 1}),  # some were removed
        (20, (10, 10), set()),
        (30, (10, 10), set()),
        (None, (0, 0), set()),  # there was nothing to store
        (None, (), set()),
    ],
)
def test_shards_are_lost_where_the_collection_has_fewer_rows(monkeypatch, stored, rows, lost):
    assert over(monkeypatch, Collection(stored)).begin(LAYOUT, receipts(*rows)) == lost


@pytest.mark.parametrize(("stored", "fails"), [(19, True), (20, False), (21, False)])
def test_a_build_ends_with_all_rows_stored(monkeypatch, stored, fails):
    target = over(monkeypatch, Collection(stored))
    target.begin(LAYOUT, [])
    if fails:
        with pytest.raises(EngineLost, match="has 19 candidates, 20 were written"):
            target.finish(receipts(10, 10))
    else:
        target.finish(receipts(10, 10))


def test_a_lost_connection_is_tried_again_after_longer_and_longer_waits(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("queryshift.galleries.engine.time.sleep", waits.append)
    collection = Collection(None)
    target = over(monkeypatch, collection)
    target.begin(LAYOUT, [])
    collection.lost = 2
    target.write(0, ["a", "b"], torch.eye(4)[:2, None])
    assert collection.rows == 2 and waits == [0.5, 1.0]
    collection.lost = 10**6
    with pytest.raises(EngineLost):
        target.write(1, ["c"], torch.eye(4)[:1, None])
    assert collection.rows == 2 and sum(waits[2:]) == 7.5  # a server may start again meanwhile


@pytest.mark.parametrize("several", [2, 3])
def test_only_a_file_of_the_library_stores_several_vectors_of_an_item(
    monkeypatch, tmp_path, several
):
    layout = Layout(4, False, several=several)
    file = FileTarget(str(tmp_path / "x.safetensors"), tmp_path, ASSEMBLERS[".safetensors"])
    assert file.begin(layout, []) == set()
    others = [FileTarget("x", tmp_path, ASSEMBLERS[kind]) for kind in (".parquet", "faiss")]
    for target in (*others, over(monkeypatch, Collection(None))):
        with pytest.raises(BadInput, match=f"gives {several} vectors per item"):
            target.begin(layout, [])


@pytest.mark.parametrize(
    ("kind", "needed"), [(".safetensors", None), (".parquet", "pyarrow"), ("faiss", "faiss")]
)
def test_a_package_that_a_file_needs_is_asked_for_before_anything_is_encoded(
    monkeypatch, tmp_path, kind, needed
):
    for package in ("pyarrow", "faiss"):
        monkeypatch.setitem(sys.modules, package, None)
    target = FileTarget(str(tmp_path / "file"), tmp_path, ASSEMBLERS[kind])
    if needed is None:
        target.begin(LAYOUT, [])
    else:
        with pytest.raises(MissingExtra, match=needed):
            target.begin(LAYOUT, [])
