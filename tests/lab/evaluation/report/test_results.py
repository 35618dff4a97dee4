"""Lines of finished cells: nothing lost in between, and damage that is named."""

import base64
import gzip
import json
import zlib
from multiprocessing import get_context

import numpy as np
import pytest
from made_cells import cell

from queryshift.errors import BadFile, BadInput
from queryshift.lab.evaluation.results import (
    decode,
    encode,
    latest,
    read_folder,
    read_lines,
    write_line,
)


def test_a_cell_comes_back_whole():
    full = cell(
        ranks=np.array([[1, 2], [3, 0], [70_000, 80_000]]),
        subset_ranks=np.array([1, 1, 2]),
        categories={"dress": 1, "shirt": 2},
        label="rest, slow",
        model="blip",
        seconds=1.5,
        settings={"lr": 3e-4},
    )
    back = decode(encode(full))
    assert back == full
    assert np.array_equal(back.ranks, full.ranks)
    assert np.array_equal(back.subset_ranks, full.subset_ranks)
    assert back.measure("subset_recall@1") == pytest.approx((100 + 50) / 2)


def test_a_line_tells_others_what_it_holds():
    told = json.loads(encode(cell(recall=25.0, queries=8)))
    assert told["queries"] == 8
    assert told["recall"]["1"] == 25.0
    assert {"5", "10", "50"} < set(told["recall"])
    assert told["mean_rank"] >= told["median_rank"] > 0
    assert "\n" not in encode(cell())


def test_stored_metrics_are_not_believed():
    told = json.loads(encode(cell(recall=25.0)))
    told["recall"]["1"] = 99.0
    assert decode(json.dumps(told)).measure("recall@1") == 25.0


def test_lines_may_have_more_parts_and_lack_optional_ones():
    told = json.loads(encode(cell()))
    del told["answers"], told["device"], told["format"], told["subset_ranks"], told["label"]
    told["weather"] = "fine"
    assert decode(json.dumps(told)).label == "frozen"


def test_a_cut_last_line_is_passed_over_and_replaced(tmp_path):
    path = tmp_path / "run" / "cells.jsonl"
    write_line(path, cell(seed=0))
    with path.open("a") as file:
        file.write(encode(cell(seed=1))[:200])
    assert [one.seed for one in read_lines(path).cells] == [0]
    assert read_lines(path).problems == []
    write_line(path, cell(seed=2))
    assert [one.seed for one in read_lines(path).cells] == [0, 2]
    assert read_lines(path).problems == []


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_text(encode(cell(seed=0)))
    assert [one.seed for one in read_lines(path).cells] == [0]
    write_line(path, cell(seed=1))
    assert [one.seed for one in read_lines(path).cells] == [0, 1]


def _changed(**parts):
    return json.dumps(json.loads(encode(cell(queries=10))) | parts)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"benchmark": "coco', "Unterminated string"),
        ("[1, 2]", "it holds a list"),
        ('{"benchmark": "coco-o-image"}', "it has no 'ranks'"),
        (_changed(format=3), "it has format 3, this version reads up to 2"),
        (_changed(queries=11), "10 ranks for 11 queries"),
        (_changed(ranks="?"), "not a finished cell"),
        (_changed(ranks="AAAA"), "not a finished cell"),
        (_changed(groups={"dress": 3}), "hold 3 queries"),
        ("\x00\ufffd", "not a finished cell"),
    ],
)
def test_a_damaged_line_is_named_and_the_rest_is_read(tmp_path, line, problem):
    path = tmp_path / "cells.jsonl"
    path.write_text(f"{encode(cell(seed=0))}\n{line}\n\n{encode(cell(seed=1))}\n")
    cells, problems = read_lines(path)
    assert [one.seed for one in cells] == [0, 1]
    (told,) = problems
    assert problem in told
    assert "cells.jsonl, line 2" in told


def test_a_folder_gives_each_cell_once_and_the_latest(tmp_path):
    write_line(tmp_path / "b.jsonl", cell(recall=10.0, finished="2026-11-15T10:00:00Z"))
    write_line(tmp_path / "deep" / "a.jsonl", cell(recall=20.0, finished="2026-11-15T11:00:00Z"))
    write_line(tmp_path / "deep" / "a.jsonl", cell("rest"))
    (tmp_path / "notes.txt").write_text("not mine")
    cells, problems = read_folder(tmp_path)
    assert {one.method: one.measure("recall@1") for one in cells} == {"frozen": 20.0, "rest": 50.0}
    assert problems == []


def test_the_latest_is_told_by_its_finishing_time_not_by_its_place(tmp_path):
    early, late = "2026-11-15T10:00:00Z", "2026-11-15T11:00:00Z"
    write_line(tmp_path / "a.jsonl", cell(recall=20.0, finished=late))
    write_line(tmp_path / "b.jsonl", cell(recall=10.0, finished=early))
    write_line(tmp_path / "b.jsonl", cell("rest", recall=60.0, finished=late))
    write_line(tmp_path / "b.jsonl", cell("rest", recall=70.0, finished=early))
    every = [one for name in "ab" for one in read_lines(tmp_path / f"{name}.jsonl").cells]
    for kept in (read_folder(tmp_path).cells, latest(every)):
        found = {one.method: one.measure("recall@1") for one in kept}
        assert found == {"frozen": 20.0, "rest": 60.0}


def test_cells_over_other_queries_do_not_overrule(tmp_path):
    write_line(tmp_path / "whole" / "a.jsonl", cell(queries=200, finished="2026-01-01"))
    write_line(tmp_path / "trial" / "a.jsonl", cell(queries=20, finished="2026-01-02"))
    assert sorted(one.queries for one in read_folder(tmp_path).cells) == [20, 200]


def test_a_cell_run_again_with_other_settings_is_told(tmp_path):
    for day, rerank in enumerate((16, 32)):
        again = cell(settings={"rerank": rerank, "ray_node": day}, finished=f"2026-01-0{day + 1}")
        write_line(tmp_path / str(day) / "a.jsonl", again)
    (kept,), problems = read_folder(tmp_path)
    assert kept.settings["rerank"] == 32
    assert problems == [
        "1 cells of coco-o-image were run again with other settings (rerank): the later ones count."
    ]


def test_ranks_of_the_first_format_are_read():
    told = json.loads(encode(cell(queries=3)))
    plain = np.array([7, 70_000, 1], "<u4")
    packed = base64.b64encode(zlib.compress(plain.tobytes())).decode()
    old = decode(json.dumps(told | {"format": 1, "ranks": packed}))
    assert np.array_equal(old.ranks[:, 0], plain)
    assert np.array_equal(decode(encode(old)).ranks, old.ranks)


def test_compressed_files_are_read_too(tmp_path):
    line = f"{encode(cell('rest', seed=3))}\n".encode()
    (tmp_path / "old.jsonl.gz").write_bytes(gzip.compress(line))
    write_line(tmp_path / "new.jsonl", cell())
    assert {one.method for one in read_folder(tmp_path).cells} == {"frozen", "rest"}
    (tmp_path / "old.jsonl.gz").write_bytes(gzip.compress(line)[:-9])
    with pytest.raises(BadFile, match=r'old\.jsonl\.gz" cannot be read as results'):
        read_folder(tmp_path)
    (tmp_path / "old.jsonl.gz").write_bytes(b"something else")
    with pytest.raises(BadFile, match="Not a gzipped file"):
        read_lines(tmp_path / "old.jsonl.gz")


def test_models_severities_and_labels_are_told_apart():
    several = [cell(), cell(model="blip"), cell(severity=3), cell(label="x"), cell(seed=1), cell()]
    assert len(latest(several)) == 5


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(BadFile, match=r"no finished cell .* 0 files .* `queryshift run` writes"):
        read_folder(tmp_path)
    (tmp_path / "a.jsonl").write_text("{\n")
    with pytest.raises(BadFile, match="line 1"):
        read_folder(tmp_path)
    with pytest.raises(BadFile, match="there is no file"):
        read_folder(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("ranks", [[], [0, 1], np.ones((2, 2, 2))])
def test_impossible_ranks_are_refused(ranks):
    with pytest.raises(BadInput, match="got ranks of shape"):
        cell(ranks=np.array(ranks))


def test_a_subset_metric_needs_a_subset():
    with pytest.raises(BadInput, match="coco-o-image has none"):
        cell().measure("subset_recall@1")


def _write(path, first):
    for seed in range(first, first + 10):
        write_line(path, cell(seed=seed, queries=3000))


def test_processes_that_write_one_file_lose_nothing(tmp_path):
    path = tmp_path / "cells.jsonl"
    spawn = get_context("spawn")
    writers = [spawn.Process(target=_write, args=(path, first)) for first in (0, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    cells, problems = read_lines(path)
    assert sorted(one.seed for one in cells) == list(range(20))
    assert problems == []


@pytest.mark.parametrize(
    "groups", [[1, 2], "ab", 5, {"shirts": "many"}, {"shirts": [1]}, {"shirts": True}], ids=repr
)
def test_wrong_groups_are_one_sentence(groups):
    stored = json.loads(encode(cell())) | {"groups": groups}
    with pytest.raises(BadFile, match=r"not a finished cell \(its group"):
        decode(json.dumps(stored))


def test_a_file_of_another_program_is_not_listed_line_by_line(tmp_path):
    (tmp_path / "log.csv").write_text("a,b\n" * 100)
    with pytest.raises(BadFile, match=r"and 97 more lines\. `queryshift run`") as caught:
        read_folder(tmp_path / "log.csv")
    assert str(caught.value).count("\n") == 3


def test_deeply_nested_json_is_one_sentence():
    with pytest.raises(BadFile, match="recursion depth"):
        decode("[" * 200_000)
