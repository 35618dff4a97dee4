"""A user's own files: each kind is read, and a mistake is named with its file and line."""

import csv
import json
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from queryshift.errors import BadFile, BadInput, UnknownName
from queryshift.lab.datasets.reading.matches import answers_by_query, partners
from queryshift.lab.evaluation.runner.gallery_cache import content_hash
from queryshift.media.item_collection import as_collection, read_collection

TEXTS = ["a red square", "a blue arrow", "file.png"]


def write_rows(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    elif path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            delimiter = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    return path


def write_pictures(folder, names):
    folder.mkdir(exist_ok=True)
    for shade, name in enumerate(names):
        Image.new("RGB", (8, 8), (20 * shade, 0, 0)).save(folder / name)
    return folder


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet"])
def test_texts_of_a_table_are_never_opened_as_files(tmp_path, ending):
    rows = [{"SKU": f"s{i}", "text": text} for i, text in enumerate(TEXTS)]
    read = read_collection(write_rows(tmp_path / f"t.{ending}", rows), {"id": "sku"})
    assert (read.modality, list(read.ids), list(read.items)) == ("text", ["s0", "s1", "s2"], TEXTS)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_path_column_is_opened_beside_its_table(tmp_path, ending):
    write_pictures(tmp_path / "p", ["a.png", "b.png"])
    rows = [{"id": i, "path": f"p/{name}.png"} for i, name in enumerate("ab")]
    read = read_collection(write_rows(tmp_path / f"t.{ending}", rows))
    assert read.modality == "image" and [str(one) for one in read.ids] == ["0", "1"]
    assert read.items[1].getpixel((0, 0)) == (20, 0, 0)


def test_a_folder_of_pictures_with_a_captions_file_matches_both_ways(tmp_path):
    folder = write_pictures(tmp_path / "p", ["b.png", "a.png"])
    rows = [{"file_name": n, "caption": c} for n, c in (("a.png", "x"), ("b.png", "y, z"))]
    rows.append({"file_name": "a.png", "caption": "w"})
    captions = read_collection(write_rows(tmp_path / "captions.csv", rows))
    pictures = read_collection(folder)
    assert list(pictures.ids) == ["a.png", "b.png"]
    assert partners(captions, pictures, None) == [[0], [1], [0]]
    assert partners(pictures, captions, None) == [[0, 2], [1]]


def test_vectors_come_with_ids_beside_them_or_by_position(tmp_path):
    table = np.eye(3, 4, dtype=np.float32)
    np.save(tmp_path / "v.npy", table)
    assert list(read_collection(tmp_path / "v.npy").ids) == [0, 1, 2]
    (tmp_path / "v.ids.txt").write_text("x\ny\nz\n")
    assert list(read_collection(tmp_path / "v.npy").ids) == ["x", "y", "z"]
    save_file({"vectors": torch.eye(3, 4)}, tmp_path / "w.safetensors")
    (tmp_path / "w.ids.json").write_text("[7, 8, 9]")
    read = read_collection(tmp_path / "w.safetensors")
    assert list(read.ids) == [7, 8, 9] and np.array_equal(np.stack(read.items), table)
    (tmp_path / "v.ids.txt").write_text("x\n")
    with pytest.raises(BadFile, match=r"3 vectors, the file beside it 1 ids"):
        read_collection(tmp_path / "v.npy")


def test_vectors_of_a_parquet_table(tmp_path):
    rows = [{"id": f"p{i}", "embedding": [float(i), 1.0]} for i in range(3)]
    read = read_collection(write_rows(tmp_path / "v.parquet", rows))
    assert read.modality == "vector" and read.items[2].tolist() == [2.0, 1.0]
    assert read.items[2].dtype == np.float32


def test_pictures_in_a_parquet_table(tmp_path):
    write_pictures(tmp_path / "p", ["a.png", "b.png"])
    stored = [(tmp_path / "p" / name).read_bytes() for name in ("a.png", "b.png")]
    for name, images in {
        "bytes": stored,
        "datasets": [{"bytes": one, "path": "a.png"} for one in stored],
    }.items():
        rows = [{"id": i, "image": image} for i, image in enumerate(images)]
        read = read_collection(write_rows(tmp_path / f"{name}.parquet", rows))
        assert read.modality == "image" and list(read.ids) == [0, 1]
        assert read.items[1].getpixel((0, 0)) == (20, 0, 0)
        assert content_hash(read.items[:1]) != content_hash(read.items[1:])


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_of_a_table_no_more_is_in_memory_than_its_items(tmp_path, ending):
    """Rows pass by one at a time: what they hold beside id and text is never there at once."""
    rows = [{"id": i, "text": f"item {i}", "about": f"{i} " * 400} for i in range(5000)]
    path = write_rows(tmp_path / f"t.{ending}", rows)
    del rows
    tracemalloc.start()
    read = read_collection(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read) == 5000 and peak < 3e6  # the column that is not read has 9 MB


def test_a_line_of_json_may_hold_other_separators(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "one\u2028two\u0085three"}\n', encoding="utf-8")
    assert list(read_collection(tmp_path / "t.jsonl").items) == ["one\u2028two\u0085three"]


def test_a_folder_that_datasets_saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = pytest.importorskip("pyarrow").table({"id": [5, 6], "text": ["one", "two"]})
    table = datasets.table.InMemoryTable(rows)
    datasets.Dataset(table, fingerprint="own").save_to_disk(str(tmp_path / "d"))
    read = read_collection(tmp_path / "d")
    assert (list(read.ids), list(read.items)) == ([5, 6], ["one", "two"])


def test_a_log_is_replayed_in_the_order_of_its_time_stamps(tmp_path):
    stamps = ["2026-01-02T00:00:00", "2026-01-01T00:00:00", "2026-01-01T12:00:00"]
    rows = [
        {"ts": stamp, "query": text, "clicked": f"c{i}"}
        for i, (stamp, text) in enumerate(zip(stamps, TEXTS, strict=True))
    ]
    read = read_collection(write_rows(tmp_path / "log.jsonl", rows))
    assert list(read.items) == [TEXTS[1], TEXTS[2], TEXTS[0]]
    assert list(read.partners) == [["c1"], ["c2"], ["c0"]] and list(read.ids) == [1, 2, 0]


def test_matches_have_several_answers_and_ids_of_any_kind(tmp_path):
    queries, gallery = as_collection({1: "x", "b": "y", 3: "z"}), as_collection(["u", "v", "w"])
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"1": [0, "2"], "b": 1, "3": ["gone"]}))
    assert partners(queries, gallery, answers_by_query(path)) == [[0, 2], [1], []]
    rows = [{"query_id": q, "clicked": c} for q, c in ((1, 0), (1, 2), ("b", 1))]
    clicks = answers_by_query(write_rows(tmp_path / "clicks.csv", rows))
    assert partners(queries, gallery, clicks) == [[0, 2], [1], []]
    with pytest.raises(UnknownName, match='no query with the id "nine"'):
        partners(queries, gallery, {"nine": [0]})
    with pytest.raises(BadInput, match="two candidates have the id"):
        partners(queries, as_collection({1: "x", "1": "y"}), None)


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("t.jsonl", '{"text": "a"}\n{"text": \n', r't.jsonl", line 2: not JSON'),
        ("t.jsonl", '{"text": "a"}\n\n[1]\n', r't.jsonl", line 3: got a list'),
        ("t.jsonl", '{"text": "a"}\n{"text": " "}\n', r't.jsonl", line 2: the text is empty'),
        ("t.jsonl", '{"text": 3}\n', r't.jsonl", line 1: got 3 as the text'),
        ("t.csv", "id,text\n1,a\n2,b,c\n", r't.csv", line 3: got 3 fields, expected 2'),
        ("t.csv", "id,path\n1,nowhere.png\n", r't.csv", line 2: there is no file'),
        ("t.csv", "id,words\n1,a\n", r"no column of items.*--column text=NAME"),
        ("t.csv", "text,path\na,b.png\n", r"a column of texts and one of paths"),
        ("t.csv", "text,time\na,yesterday\n", r't.csv", line 2: got the time stamp'),
        ("t.csv", "text\n", r"has no rows"),
        ("t.jsonl", '{"vector": [1, "x"]}\n', r"line 1: got \[1, .x.\] as the vector, expected"),
        ("t.npy", "nothing", r"t.npy. cannot be read as vectors"),
    ],
)
def test_mistakes_name_the_file_and_the_line(tmp_path, name, body, said):
    (tmp_path / name).write_text(body)
    with pytest.raises(BadFile, match=said):
        read_collection(tmp_path / name)


def test_what_is_no_file_of_these_is_refused(tmp_path):
    (tmp_path / "t.docx").write_text("")
    with pytest.raises(BadInput, match=r"ends in .\.docx., expected a folder or one of"):
        read_collection(tmp_path / "t.docx")
    with pytest.raises(BadInput, match="there is no file or folder"):
        read_collection(tmp_path / "gone")
    with pytest.raises(UnknownName, match='no role of a column "sku"'):
        read_collection(write_rows(tmp_path / "t.csv", [{"text": "a"}]), {"sku": "id"})
