"""The plan of a build: what it takes as items, and when two builds are of the same items."""

from pathlib import Path

import numpy as np
import pytest

from queryshift.errors import BadInput
from queryshift.indexing.plan import Plan, plan


def planned(items, shard_size: int = 2) -> Plan:
    return plan(items, {}, shard_size)


def test_every_number_of_a_long_item_counts():
    long = np.linspace(0, 1, 5000)
    other = long.copy()
    other[2500] = 7
    same = planned({"a": long.copy()}).digest()
    assert planned({"a": long}).digest() == same != planned({"a": other}).digest()


def test_items_without_numbers_count_by_what_they_say():
    first, again, other = ([{"row": row}, {"row": 3}] for row in (1, 1, 2))
    assert planned(first).digest() == planned(again).digest() != planned(other).digest()


@pytest.mark.parametrize("items", [["a", "b", "c"], {0: "a", 1: "b", 2: "other"}, ["a", "b"]])
def test_texts_ids_and_the_size_of_a_shard_count(items):
    same = planned({0: "a", 1: "b", 2: "c"}).digest()
    assert (planned(items).digest() == same) == (items == ["a", "b", "c"])
    assert planned(items, 3).digest() != planned(items).digest() != planned(items).digest("more")


@pytest.mark.parametrize("kind", [list, tuple])
def test_files_of_images_are_the_items_themselves(tmp_path, kind):
    files = kind(tmp_path / f"{name}.png" for name in "abc")
    for file in files:
        file.touch()
    made = planned(files)
    assert (made.collection.modality, list(made.collection.ids)) == ("image", [0, 1, 2])
    assert [list(shard.ids) for shard in made.shards()] == [[0, 1], [2]]
    assert [shard.number for shard in made.shards()] == [0, 1]


def test_several_folders_of_files_are_joined_without_opening_any(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.png").write_bytes(b"no image")
    made = planned([tmp_path / "a", tmp_path / "b"])
    assert (made.collection.modality, made.collection.ids) == ("image", ["a.png", "b.png"])
    assert len(made.collection.items) == 2


def test_items_of_two_kinds_are_refused(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    (tmp_path / "captions.txt").write_text("a caption")
    with pytest.raises(BadInput, match="items of the kinds image, text, expected one"):
        planned([tmp_path / "photos", tmp_path / "captions.txt"])
