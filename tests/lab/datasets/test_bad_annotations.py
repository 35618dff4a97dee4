"""Annotations that are damaged or empty: an error that names file, record and field."""

import json

import pytest
import small

from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS

LIST = "audioset_eval_5_per_class_for_retrieval_cleaned.json"
WRITERS = {
    "coco": small.coco,
    "nocaps": small.nocaps,
    "audioset": lambda root: small.clips(root, LIST),
    "fashion-iq": small.fashion_iq,
    "cirr": small.cirr,
}
BLIPS = [{"image": "val2014/a.jpg", "caption": "one text, not a list of them"}]


def damaged(root, name, file, change):
    path = WRITERS[name](root) / file
    found = json.loads(path.read_text())
    change(found)
    small.write_json(path, found)


@pytest.mark.parametrize(
    ("name", "file", "change", "told"),
    [
        (
            "coco",
            "dataset_coco.json",
            lambda found: found["images"][1].update(sentences=None),
            "the \"sentences\" of record 1 is 'None', expected a list of sentences",
        ),
        (
            "coco",
            "dataset_coco.json",
            lambda found: found["images"][0]["sentences"][2].pop("raw"),
            'expected a list of sentences with a "raw" text each',
        ),
        (
            "nocaps",
            "nocaps_val_4500_captions.json",
            lambda found: found["annotations"][3].update(caption=None),
            "the \"caption\" of record 3 is 'None', expected a text",
        ),
        (
            "audioset",
            LIST,
            lambda found: found["data"][0].update(wav=None),
            'the "wav" of record 0',
        ),
        (
            "fashion-iq",
            "captions/cap.dress.val.json",
            lambda found: found[0].update(captions="is red"),
            "the \"captions\" of record 0 is 'is red', expected a list of texts",
        ),
        (
            "fashion-iq",
            "image_splits/split.dress.val.json",
            lambda found: found.append(7),
            "holds no list of names",
        ),
        (
            "cirr",
            "captions/cap.rc2.val.json",
            lambda found: found[1].update(img_set=None),
            'the "img_set" of record 1',
        ),
        (
            "cirr",
            "image_splits/split.rc2.val.json",
            lambda found: found.update(one=None),
            "holds no names with a file each",
        ),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(name, file, change, told, tmp_path):
    damaged(tmp_path, name, file, change)
    with pytest.raises(BadFile) as error:
        DATASETS[name](tmp_path)
    assert told in str(error.value)
    assert file in str(error.value)


def test_blips_captions_are_lists(tmp_path):
    small.write_json(tmp_path / "coco_karpathy_test.json", BLIPS)
    with pytest.raises(BadFile, match="expected a list of texts"):
        DATASETS["coco"](tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "change", "part"),
    [
        ("coco", "dataset_coco.json", lambda found: found["images"].clear(), "test"),
        ("audioset", LIST, lambda found: found["data"].clear(), "retrieval"),
        ("fashion-iq", "captions/cap.dress.val.json", list.clear, "dress"),
        (
            "nocaps",
            "nocaps_val_4500_captions.json",
            lambda found: found["images"].pop(0),
            "in-domain",
        ),
    ],
)
def test_a_part_without_a_query_is_refused(name, file, change, part, tmp_path):
    damaged(tmp_path, name, file, change)
    with pytest.raises(BadFile, match=f'no query of {name}, part "{part}": are these other files'):
        DATASETS[name](tmp_path)
