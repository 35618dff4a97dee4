"""CIRR: validation, soft targets, and the files for its server."""

import json

import pytest
import small

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.datasets import DATASETS, usable
from queryshift.lab.datasets.cirr import submission, write_submissions

CIRR = DATASETS["cirr"]


def test_validation_has_one_answer_and_no_reference(tmp_path):
    dataset = CIRR(small.cirr(tmp_path))
    assert dataset.query_ids == ["12060", "12130"]
    assert dataset.matches == [[1], [3]]
    assert [list(each) for each in dataset.exclude] == [[0], [2]]
    assert dataset.subsets == [[1, 2, 3, 4, 5], [0, 1, 3, 4, 5]]
    picture, text = dataset.queries[1]
    assert (picture.size, text) == ((6, 4), "add a wooden log")


def test_soft_targets_of_positive_weight_are_right_too(tmp_path):
    dataset = CIRR(small.cirr(tmp_path), part="val-soft")
    assert dataset.matches == [[1, 4], [3, 6]]  # never the reference, always the hard target


def test_the_test_split_has_no_answers(tmp_path):
    dataset = CIRR(small.cirr(tmp_path), part="test1")
    assert dataset.matches == [[], []]
    assert dataset.counts == {"images": 7, "captions": 2, "pairs": 0}
    kept, skipped = usable(dataset)
    assert (len(kept), skipped) == (2, [])


def test_unusable_pairs_are_named(tmp_path):
    root = small.cirr(tmp_path)
    path = root / "captions" / "cap.rc2.val.json"
    pairs = json.loads(path.read_text())
    pairs[0]["target_hard"] = "dev-gone"
    pairs[1]["caption"] = " "
    small.write_json(path, [*pairs, {**pairs[1], "caption": "with snow"}])
    assert CIRR(root).left_out == [
        'pair 12060 has the target_hard "dev-gone", which is not in the split.',
        "pair 12130 has no words.",
    ]


def test_the_server_gets_names_without_the_reference(tmp_path):
    dataset = CIRR(small.cirr(tmp_path), part="test1")
    rankings = [[0, 6, 5, 4, 3, 2, 1], [6, 5, 4, 3, 2, 1, 0]]
    recall = submission(dataset, rankings, "recall")
    assert (recall["version"], recall["metric"]) == ("rc2", "recall")
    assert recall["12060"] == [f"test1-{place}-0-img0" for place in (6, 5, 4, 3, 2, 1)]
    subset = submission(dataset, rankings, "recall_subset")
    assert subset["12130"] == [f"test1-{place}-0-img0" for place in (5, 4, 3)]
    assert json.loads(json.dumps(subset)) == subset


def test_both_files_are_written(tmp_path):
    dataset = CIRR(small.cirr(tmp_path), part="test1")
    paths = write_submissions(dataset, [list(range(7))] * 2, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [
        "cirr-test1-recall.json",
        "cirr-test1-recall_subset.json",
    ]
    assert json.loads(paths[1].read_text())["12060"][0] == "test1-1-0-img0"


def test_rankings_that_are_too_short_are_refused(tmp_path):
    dataset = CIRR(small.cirr(tmp_path), part="test1")
    with pytest.raises(BadInput, match="pair 12060 holds 2 candidates that count"):
        submission(dataset, [[0, 6, 5, 4], [5, 4, 3]], "recall_subset")
    with pytest.raises(BadInput, match="1 of 2 queries"):
        submission(dataset, [[0]], "recall")
    with pytest.raises(UnknownName, match="recall_subset"):
        submission(dataset, [[0], [0]], "recal")


def test_candidates_that_go_take_their_positions_along(tmp_path):
    root = small.cirr(tmp_path)
    (root / "img_raw" / "dev" / "dev-1-0-img0.png").write_bytes(b"\x89PNG not one")
    kept, skipped = usable(CIRR(root))
    assert kept.query_ids == ["12130"]  # the answer of the other cannot be read
    assert (kept.matches, kept.exclude, kept.subsets) == ([[2]], [[1]], [[0, 2, 3, 4]])
    assert "dev-1-0-img0.png" in skipped[0]
    assert skipped[1] == 'query "12060" has no right answer left.'
