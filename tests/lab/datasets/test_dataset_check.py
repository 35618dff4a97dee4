"""Counts beside the published ones, and the command that shows them."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import small
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.lab.datasets import DATASETS
from queryshift.lab.datasets.reading.dataset_check import check


@pytest.fixture
def published(monkeypatch):
    """COCO as if its publisher had only what the small one has."""
    counts = {"test": {"images": 2, "captions": 12, "pairs": 10}}
    paper = {"images": 2, "captions": 10}
    coco = replace(DATASETS["coco"], parts=counts, paper=paper)
    monkeypatch.setitem(DATASETS, "coco", coco)


def run(*arguments):
    return CliRunner().invoke(main, ["data", "check", *map(str, arguments)])


def test_a_whole_dataset_is_complete(tmp_path, published):
    found = check("coco", small.coco(tmp_path))
    assert found.complete
    assert [(each.what, each.found, each.published, each.paper) for each in found.counts] == [
        ("images", 2, 2, None),
        ("captions", 12, 12, 10),  # the paper's number stands only where it is another
        ("pairs", 10, 10, None),
    ]


def test_a_missing_file_is_named_and_the_exit_code_tells(tmp_path, published):
    root = small.coco(tmp_path)
    assert run("coco", "--root", root).exit_code == 0
    gone = root / "val2014" / "COCO_val2014_000000000002.jpg"
    gone.unlink()
    found = check("coco", root)
    assert list(found.missing) == [str(gone)]
    assert [each.found for each in found.counts] == [1, 12, 10]  # what is listed is not yet there
    told = run("coco", "--root", root)
    assert told.exit_code == 1
    assert f"missing: {gone}" in told.output
    assert "Not complete." in told.output


def test_a_dataset_is_looked_for_where_all_of_them_lie(tmp_path, published, monkeypatch):
    monkeypatch.delenv("QUERYSHIFT_DATA", raising=False)
    told = run("coco")
    assert told.exit_code == 2
    assert "give --root, or set QUERYSHIFT_DATA to the folder that holds coco/" in told.output
    small.coco(tmp_path / "coco")
    monkeypatch.setenv("QUERYSHIFT_DATA", str(tmp_path))
    assert run("coco").exit_code == 0


def test_counts_that_fall_short_are_not_complete(tmp_path):
    found = check("coco", small.coco(tmp_path))
    assert not found.complete
    assert not found.missing
    assert all(count.short for count in found.counts)


def test_the_papers_sum_over_parts_stands_in_rows_of_its_own(tmp_path):
    found = check("nocaps", small.nocaps(tmp_path))
    sums = [count for count in found.counts if "+" in count.part]
    assert [(each.part, each.what, each.found, each.published, each.paper) for each in sums] == [
        ("in-domain + out-domain", "images", 2, 1_562, 1_562),
        ("in-domain + out-domain", "captions", 20, 15_620, 15_620),
    ]
    assert len(found.left_out) == 1  # one caption, though both parts meet it


def test_one_part_that_cannot_be_read_leaves_the_others(tmp_path):
    root = small.cirr(tmp_path)
    (root / "captions" / "cap.rc2.test1.json").unlink()
    found = check("cirr", root)
    assert "cap.rc2.test1.json" in found.missing[0]
    by_part = {(count.part, count.what): count.found for count in found.counts}
    assert by_part["val", "pairs"] == 2
    assert by_part["test1", "captions"] is None
    assert "not read" in run("cirr", "--root", root).output


def test_many_missing_files_are_counted_and_json_names_them_all(tmp_path):
    root = small.fashion_iq(tmp_path)
    for path in (root / "images").iterdir():
        path.unlink()
    assert "missing: 12 in all; --json names them." in run("fashion-iq", "--root", root).output
    found = json.loads(run("fashion-iq", "--root", root, "--json").stdout)
    assert len(found["missing"]) == 12
    assert {each["found"] for each in found["counts"] if each["what"] == "images"} == {0}
    assert found["complete"] is False


def test_clips_and_sounds_are_counted_each_for_themselves(tmp_path):
    root = small.clips(tmp_path, "vgg_test_5_per_class_for_retrieval_cleaned.json")
    for path in (root / "audio").iterdir():
        path.unlink()
    (root / "frame_3" / "--clip0.jpg").unlink()  # nine frames are still a clip
    found = {each.what: each.found for each in check("vggsound", root).counts}
    assert found == {"videos": 3, "audio": 0, "pairs": 3}


def test_a_part_of_choice(tmp_path):
    found = check("nocaps", small.nocaps(tmp_path), part="near-domain")
    assert {count.part for count in found.counts} == {"near-domain"}
    assert run("nocaps", "--root", tmp_path, "--part", "far").exit_code == 2


def test_an_absent_folder_is_named(tmp_path):
    told = run("rsicd", "--root", tmp_path / "absent")
    assert told.exit_code == 1
    assert "there is no folder" in told.output


def test_films_are_made_by_command(tmp_path):
    told = CliRunner().invoke(main, ["data", "frames", str(tmp_path), str(tmp_path / "out")])
    assert told.exit_code == 2
    assert "has no videos" in told.output


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_says_what_to_expect(name):
    reader = DATASETS[name]
    assert reader.name == name
    assert set(reader.paper_parts) <= set(reader.parts)
    kinds = {frozenset(counts) for counts in reader.parts.values()}
    assert len(kinds) == 1
    assert set(reader.paper) <= next(iter(kinds))


def test_names_and_help_load_nothing_heavy():
    code = (
        "import sys; from queryshift.lab.datasets import DATASETS; from queryshift.cli import main;"
        "[DATASETS[name] for name in DATASETS];"
        "main(['data', 'check', '--help'], standalone_mode=False);"
        "sys.exit(len({'torch', 'numpy', 'cv2', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
