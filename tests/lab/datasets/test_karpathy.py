"""COCO, Flickr30k, Flickr8k, RSICD and RSITMD: one format."""

import json

import pytest
import small

from queryshift.errors import BadFile, UnknownName
from queryshift.lab.datasets import DATASETS


def test_pictures_have_at_most_five_captions_in_order(tmp_path):
    dataset = DATASETS["coco"](small.coco(tmp_path))
    assert dataset.query_ids == ["COCO_val2014_000000000001", "COCO_val2014_000000000002"]
    assert [list(right) for right in dataset.matches] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert dataset.candidates[4] == "Caption 4 of 0."
    assert dataset.candidates[5] == "Caption 0 of 1."
    assert dataset.counts == {"images": 2, "captions": 12, "pairs": 10}


def test_captions_ask_for_their_picture(tmp_path):
    dataset = DATASETS["coco"](small.coco(tmp_path), query="text")
    assert (dataset.query, dataset.gallery) == ("text", "image")
    assert dataset.queries[6] == "Caption 1 of 1."
    assert dataset.query_ids[6] == "COCO_val2014_000000000002#1"
    assert list(dataset.matches[6]) == [1]
    assert dataset.candidates[1].getpixel((0, 0))[0] <= 4  # opened, a JPEG of shade 1


def test_training_takes_restval_in(tmp_path):
    dataset = DATASETS["coco"](small.coco(tmp_path), part="train")
    assert dataset.query_ids == ["COCO_val2014_000000000004", "COCO_train2014_000000000005"]
    assert str(dataset.queries.sources[1].path).endswith(
        "train2014/COCO_train2014_000000000005.jpg"
    )


def test_blips_file_of_one_split_gives_the_same(tmp_path):
    root = small.coco(tmp_path)
    whole = DATASETS["coco"](root)
    images = json.loads((root / "dataset_coco.json").read_text())["images"]
    (root / "dataset_coco.json").unlink()
    listed = [
        {
            "image": f"{each['filepath']}/{each['filename']}",
            "caption": [sentence["raw"] for sentence in each["sentences"]],
        }
        for each in images
        if each["split"] == "test"
    ]
    small.write_json(root / "coco_karpathy_test.json", listed)
    again = DATASETS["coco"](root)
    assert again.query_ids == whole.query_ids
    assert again.candidates == whole.candidates
    assert again.queries.sources == whole.queries.sources


@pytest.mark.parametrize(
    ("name", "file", "folder"),
    [
        ("flickr30k", "flickr30k", "flickr30k-images"),
        ("flickr8k", "flickr8k", "Flicker8k_Dataset"),
        ("rsicd", "rsicd", "RSICD_images"),
        ("rsitmd", "RSITMD", "images"),
    ],
)
def test_blank_captions_are_left_out_and_named(tmp_path, name, file, folder):
    dataset = DATASETS[name](small.flickr(tmp_path, file, folder))
    assert dataset.query_ids == ["000", "100"]  # the third has no caption to be found
    assert [len(right) for right in dataset.matches] == [5, 4]
    assert dataset.candidate_ids[5:] == ["100#0", "100#1", "100#2", "100#4"]
    assert dataset.left_out[0] == 'caption 3 of "100" is blank.'
    assert len(dataset.left_out) == 6
    assert dataset.counts == {"images": 3, "captions": 15, "pairs": 9}
    assert dataset.queries[1].size == (6, 4)


def test_a_picture_of_blank_captions_is_still_a_candidate(tmp_path):
    root = small.flickr(tmp_path, "flickr30k", "flickr30k-images")
    assert len(DATASETS["flickr30k"](root, query="text").candidates) == 3


def test_bad_files_are_named(tmp_path):
    with pytest.raises(BadFile, match=r'has no "dataset_coco\.json" or "coco_'):
        DATASETS["coco"](tmp_path)
    (tmp_path / "dataset_coco.json").write_text('{"images": [')
    with pytest.raises(BadFile, match=r"dataset_coco\.json"):
        DATASETS["coco"](tmp_path)
    small.write_json(tmp_path / "dataset_coco.json", {"images": [{"filename": "a.jpg"}]})
    with pytest.raises(BadFile, match='record 0 has no "split"'):
        DATASETS["coco"](tmp_path)
    small.write_json(tmp_path / "dataset_coco.json", {"annotations": []})
    with pytest.raises(BadFile, match="NoneType"):
        DATASETS["coco"](tmp_path)
    small.write_json(tmp_path / "dataset_coco.json", {"images": []})
    with pytest.raises(BadFile, match='no query of coco, part "test"'):
        DATASETS["coco"](tmp_path)


def test_unknown_names_are_answered_with_known_ones(tmp_path):
    with pytest.raises(UnknownName, match="did you mean"):
        DATASETS["cocos"]
    with pytest.raises(UnknownName, match="image, text"):
        DATASETS["coco"](tmp_path, query="video")
    with pytest.raises(UnknownName, match="test, val, train"):
        DATASETS["coco"](tmp_path, part="minival")
    with pytest.raises(BadFile, match="no folder"):
        DATASETS["coco"](tmp_path / "absent")
