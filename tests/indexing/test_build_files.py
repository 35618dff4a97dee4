"""Galleries built into files: every kind of item and file, bad items, kills in the middle."""

import csv
import fcntl
import json
import os
import re
import signal
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from building import (
    TEXTS,
    built,
    check_rows,
    expected,
    kill_after,
    start,
    table,
)
from click.testing import CliRunner
from hashing_model import draw, make, other
from PIL import Image

import queryshift as qs
from queryshift.cli import main
from queryshift.errors import BadFile, BadInput, UnknownName
from queryshift.indexing import BuildSettings, build, build_gallery

SMALL = BuildSettings(shard_size=10, batch_size=5)
TARGETS = ("gallery.safetensors", "gallery.parquet", "faiss:gallery.faiss")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def tangram():
    return qs.load("tangram")


def pictures(folder: Path, count: int = 3) -> Path:
    (folder / "photos").mkdir()
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")
    return folder / "photos"


def stopped(folder: Path, to: str, monkeypatch, texts=TEXTS) -> None:
    """A build that Ctrl-C ends in its fourth shard."""
    left = iter(range(35))

    def drawn(text):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return draw(text)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hashing_model.draw", drawn)
        build_gallery(make, table(folder, texts), to, SMALL)


def rows_of(gallery) -> torch.Tensor:
    return gallery.vectors[:, 0]


@pytest.mark.parametrize("to", TARGETS)
def test_a_table_of_texts_becomes_a_gallery(folder, to):
    result = build_gallery(make, table(folder), to, SMALL)
    assert (result.rows, result.kept, result.bad) == (100, 0, ())
    gallery = qs.Gallery.open(to)
    found = gallery.search(torch.as_tensor(expected()), 1)
    assert [one for (one,) in found.ids] == [f"c{number}" for number in range(100)]
    assert gallery.origin.fingerprint == make().fingerprint()
    assert not list(folder.glob("*.building"))


@pytest.mark.parametrize("kind", ["folder", "jsonl", "csv", "parquet"])
def test_pictures_come_from_folders_and_tables(folder, tangram, kind):
    photos = pictures(folder)
    items, ids = photos, ["0.png", "1.png", "2.png"]
    rows = [{"id": f"p{number}", "path": f"photos/{number}.png"} for number in range(3)]
    if kind != "folder":
        items, ids = folder / f"photos.{kind}", [row["id"] for row in rows]
    if kind == "jsonl":
        items.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "csv":
        with items.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), items)
    build_gallery(tangram, items, "photos.safetensors")
    gallery = qs.Gallery.load("photos.safetensors")
    memory = qs.Gallery.build(
        tangram["image"], [Image.open(photos / f"{number}.png") for number in range(3)], ids
    )
    assert gallery.ids == ids
    torch.testing.assert_close(gallery.vectors, memory.vectors)
    assert gallery.origin.modality == "image"


def test_several_files_are_one_gallery(folder):
    for name in "ab":
        rows = [{"id": f"{name}{number}", "text": f"{name} {number}"} for number in range(3)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build_gallery(make, [folder / "a.jsonl", folder / "b.jsonl"], "both.safetensors")
    assert qs.Gallery.load("both.safetensors").ids == ["a0", "a1", "a2", "b0", "b1", "b2"]
    with pytest.raises(BadInput, match="more than once"):
        build_gallery(make, [folder / "a.jsonl", folder / "a.jsonl"], "twice.safetensors")


def test_the_id_0_is_an_id(folder):
    rows = [{"id": number, "text": f"text {number}"} for number in (2, 1, 0)]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build_gallery(make, folder / "items.jsonl", "zero.safetensors")
    assert qs.Gallery.load("zero.safetensors").ids == [2, 1, 0]


def test_items_that_cannot_be_read_are_left_out_and_named(folder, tangram):
    photos = pictures(folder)
    (photos / "1.png").write_bytes(b"no picture")
    rows = [{"id": one, "path": f"photos/{one}.png"} for one in (0, 1, 2, 3)]
    (folder / "photos.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = build_gallery(tangram, folder / "photos.jsonl", "photos.safetensors")
    assert qs.Gallery.load("photos.safetensors").ids == [0, 2]
    assert [row.id for row in result.bad] == [1, 3]
    assert "cannot be read as an image" in result.bad[0].reason
    assert "there is no file" in result.bad[1].reason
    with pytest.raises(BadInput, match="item 1: "):
        build_gallery(tangram, folder / "photos.jsonl", "s.safetensors", BuildSettings(strict=True))


def test_texts_that_are_empty_or_refused_by_the_encoder_are_left_out(folder):
    texts = ["first", "refused", "", "fourth", "refused too"]
    result = build_gallery(make, table(folder, texts), "few.safetensors", SMALL)
    assert qs.Gallery.load("few.safetensors").ids == ["c0", "c3"]
    assert {row.id: row.reason for row in result.bad} == {
        "c1": "it is refused.",
        "c2": "it is empty.",
        "c4": "it is refused.",
    }
    table(folder, ["refused"])
    with pytest.raises(BadInput, match="none of the items can be read"):
        build_gallery(make, folder / "captions.jsonl", "none.safetensors")


@pytest.mark.parametrize(
    "to", ["faiss:gallery.faiss", *(pytest.param(to, marks=pytest.mark.slow) for to in TARGETS[:2])]
)
def test_a_killed_build_goes_on_without_a_row_twice_or_missing(folder, to):
    table(folder)
    kill_after(start(folder, to, slow=0.05), folder, shards=3)
    assert not (folder / to.removeprefix("faiss:")).exists()
    result = built(start(folder, to, "--json"))
    assert result["rows"] == 100 and 30 <= result["kept"] < 100
    gallery = qs.Gallery.open(to)
    if isinstance(gallery, qs.Gallery):
        check_rows(gallery.ids, rows_of(gallery))
    else:
        check_rows(gallery._row_ids, gallery.sample(1000, 0))
    assert sorted(path.name for path in folder.glob("*building*")) == []


@pytest.mark.slow
def test_it_may_be_killed_at_any_time(folder):
    table(folder)
    for tenths in (8, 16, 22, 24):  # while modules are loaded, at the first shard, later
        process = start(folder, "gallery.safetensors", slow=0.1)  # all four find it unfinished
        time.sleep(tenths / 10)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert built(start(folder, "gallery.safetensors", "--json"))["rows"] == 100
    gallery = qs.Gallery.load("gallery.safetensors")
    check_rows(gallery.ids, rows_of(gallery))


def test_a_line_cut_off_by_a_kill_does_not_count(folder, monkeypatch):
    stopped(folder, "gallery.parquet", monkeypatch)
    (journal,) = folder.glob("*.building/journal.jsonl")
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(whole[:2]) + whole[2][:-5])
    next(folder.glob("*.building/00000000.safetensors")).unlink()  # and a shard is gone
    result = build_gallery(make, folder / "captions.jsonl", "gallery.parquet", SMALL)
    assert (result.rows, result.kept) == (100, 0)
    gallery = qs.Gallery.open("gallery.parquet")
    check_rows(gallery.ids, rows_of(gallery))


@pytest.mark.slow
def test_two_processes_build_what_one_does_and_may_be_killed_too(folder):
    table(folder)
    more = ("--processes", "2")
    kill_after(start(folder, "two.safetensors", *more, slow=0.05), folder, shards=2)
    assert built(start(folder, "two.safetensors", *more, "--json"))["rows"] == 100
    gallery = qs.Gallery.load("two.safetensors")
    assert gallery.ids == [f"c{number}" for number in range(100)]
    check_rows(gallery.ids, rows_of(gallery))


def test_an_unfinished_build_of_other_items_is_refused(folder, monkeypatch):
    stopped(folder, "gallery.safetensors", monkeypatch)
    table(folder, ["others"])
    with pytest.raises(BadInput, match="--restart"):
        build_gallery(make, [folder / "captions.jsonl"], "gallery.safetensors", SMALL)
    again = BuildSettings(shard_size=10, batch_size=5, restart=True)
    build_gallery(make, folder / "captions.jsonl", "gallery.safetensors", again)
    assert qs.Gallery.load("gallery.safetensors").ids == ["c0"]


@pytest.mark.parametrize(
    ("model", "settings"),
    [(make, replace(SMALL, index="hnsw")), (other, SMALL), (make, replace(SMALL, shard_size=20))],
    ids=["index", "model", "shards"],
)
def test_an_unfinished_build_with_other_settings_is_refused(folder, monkeypatch, model, settings):
    stopped(folder, "faiss:gallery.faiss", monkeypatch)
    with pytest.raises(BadInput, match=r"with other settings.*--restart"):
        build_gallery(model, folder / "captions.jsonl", "faiss:gallery.faiss", settings)
    result = build_gallery(make, folder / "captions.jsonl", "faiss:gallery.faiss", SMALL)
    assert (result.rows, result.kept) == (100, 30)


def test_candidates_are_in_the_order_of_the_items_whichever_shard_was_last(folder, monkeypatch):
    texts = ["" if number % 10 == 5 else f"text {number}" for number in range(100)]
    stopped(folder, "gallery.safetensors", monkeypatch, texts)
    next(folder.glob("*.building/00000000.safetensors")).unlink()  # so that it comes last
    result = build_gallery(make, folder / "captions.jsonl", "gallery.safetensors", SMALL)
    assert (result.rows, result.kept) == (90, 18)
    assert qs.Gallery.load("gallery.safetensors").ids == [
        f"c{number}" for number in range(100) if number % 10 != 5
    ]
    assert [row.id for row in result.bad] == [f"c{number}" for number in range(5, 100, 10)]


def test_two_builds_of_one_gallery_do_not_run_at_once(folder, monkeypatch):
    stopped(folder, "gallery.safetensors", monkeypatch)
    with (
        next(folder.glob("*.building/journal.jsonl")).open() as journal,
        pytest.raises(BadInput, match="another process is building"),
    ):
        fcntl.flock(journal, fcntl.LOCK_EX)
        build_gallery(make, folder / "captions.jsonl", "gallery.safetensors", SMALL)


@pytest.mark.parametrize("to", TARGETS)
def test_a_session_of_another_model_warns(folder, to):
    build_gallery(make, table(folder), to, SMALL)
    gallery = qs.Gallery.open(to)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qs.Session(make(), gallery, qs.REST())
    with pytest.warns(UserWarning, match="was built by make .* build the gallery again"):
        qs.Session(other(), gallery, qs.REST())


def test_the_file_and_the_journal_may_be_in_folders_that_are_not_there_yet(folder):
    journal = folder / "the" / "journal"
    settings = replace(SMALL, journal=journal, strict=True)
    with pytest.raises(BadInput, match="item 'c19'"):
        items = table(folder, [*TEXTS[:19], "refused"])
        build_gallery(make, items, "a/new/folder/gallery.safetensors", settings)
    assert [path.name for path in journal.glob("*.safetensors")] == ["00000000.safetensors"]
    result = build_gallery(
        make, items, "a/new/folder/gallery.safetensors", replace(settings, strict=False)
    )
    assert (result.rows, result.kept) == (19, 10) and not journal.exists()
    assert len(qs.Gallery.load("a/new/folder/gallery.safetensors")) == 19


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("gallery.safetensors", r"gallery\.safetensors\.building"),
        ("faiss:gallery.faiss?nprobe=4", r"gallery\.faiss\.building"),
        ("qdrant://:secret@host/items", r"gallery-[0-9a-f]+\.building"),
    ],
)
def test_the_journal_is_beside_the_file_and_never_named_by_a_password(
    folder, monkeypatch, to, expected
):
    class Interrupted:
        workers_write = False

        def begin(self, layout, finished):
            (journal,) = folder.glob("**/*.building")
            assert re.fullmatch(expected, str(journal.relative_to(folder)))
            raise KeyboardInterrupt

        def close(self):
            pass

    monkeypatch.setattr(build, "target_for", lambda *_: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        build_gallery(make, table(folder), to, SMALL)
    assert not list(folder.glob("**/*.building"))  # nothing was finished


def test_one_item_is_encoded_to_learn_the_size_and_each_is_counted_once(folder, monkeypatch):
    drawn, counted, clock = [], [], iter([100.0, 107.5])

    @contextmanager
    def counting(label, total):
        yield counted.append
        assert sum(counted) == total == 30

    monkeypatch.setattr("hashing_model.draw", lambda text: drawn.append(text) or draw(text))
    monkeypatch.setattr(build, "counting", counting)
    monkeypatch.setattr(build, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    texts = [*TEXTS[:29], ""]
    result = build_gallery(make, table(folder, texts), "gallery.safetensors", SMALL)
    assert drawn == [TEXTS[0], *TEXTS[:29]] and counted == [10, 10, 10]
    assert (result.rows, result.seconds) == (29, 7.5)


def test_what_cannot_be_built_is_refused(folder, tangram):
    items = table(folder, ["one"])
    with pytest.raises(BadInput, match=r"expected a file that ends in \.safetensors"):
        build_gallery(make, items, "gallery.txt")
    with pytest.raises(UnknownName, match='no modality in this model "sound"'):
        build_gallery(tangram, items, "x.safetensors", BuildSettings(modality="sound"))
    with pytest.raises(BadInput, match="got vectors, expected items to encode"):
        build_gallery(tangram, {"a": np.ones(4)}, "x.safetensors")
    with pytest.raises(UnknownName, match='no column "titel"'):
        build_gallery(tangram, items, "x.safetensors", BuildSettings(columns={"text": "titel"}))
    with pytest.raises(BadInput, match="batch_size is 0"):
        BuildSettings(batch_size=0)
    with pytest.raises(BadInput, match="expected its name"):
        settings = BuildSettings(processes=2, shard_size=1)
        build_gallery({"text": make()}, table(folder, ["a", "b"]), "x.safetensors", settings)
    (folder / "no.parquet").write_bytes(b"no")
    with pytest.raises(BadFile, match="cannot be read as Parquet"):
        qs.Gallery.open(folder / "no.parquet")


def test_the_command_says_what_it_did(folder):
    table(folder, ["a red square", "", "an arrow"])
    command = ["gallery", "build", "--model", "tangram", "--items", "captions.jsonl"]
    run = CliRunner().invoke(main, [*command, "--to", "captions.safetensors"])
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("2 candidates in ")
    assert run.stdout.endswith("; 1 items left out.\n")
    assert "left out: 'c1': it is empty." in run.stderr
    run = CliRunner().invoke(main, [*command, "--to", "c.safetensors", "--strict"])
    assert run.exit_code == 2 and "item 'c1': it is empty." in run.output
