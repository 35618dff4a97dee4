"""Lazy items, the dataset that holds them, and what can be read of it."""

import pickle

import pytest
import small

from queryshift.errors import BadFile, BadInput
from queryshift.lab.datasets import DATASETS, Dataset, usable
from queryshift.media.lazy_items import ImageFile, LazyItems


@pytest.fixture
def coco(tmp_path):
    return DATASETS["coco"](small.coco(tmp_path))


def unreadable(dataset, row):
    """Cut a picture off in the middle."""
    path = dataset.queries.sources[row].path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def test_nothing_is_opened_before_it_is_asked_for(coco):
    items = coco.queries
    unreadable(coco, 1)
    assert len(items) == 2
    assert len(items[1:]) == 1
    assert items[0].mode == "RGB"
    with pytest.raises(BadFile, match=r"COCO_val2014_000000000002\.jpg"):
        items[1]


def test_a_sequence_like_any_other(coco):
    assert [picture.size for picture in coco.queries] == [(6, 4), (6, 4)]
    assert isinstance(coco.queries[:1], LazyItems)
    assert coco.queries[-1].size == (6, 4)
    with pytest.raises(IndexError):
        coco.queries[2]
    assert pickle.loads(pickle.dumps(coco.queries)).sources == coco.queries.sources


def test_a_missing_file_is_named_in_full(tmp_path):
    path = tmp_path / "folder" / "gone.jpg"
    with pytest.raises(BadFile, match=f'no file "{path}"'):
        ImageFile(path).open()


def test_grey_pictures_become_rgb(tmp_path):
    from PIL import Image

    Image.new("L", (3, 3), 7).save(tmp_path / "grey.png")
    assert ImageFile(tmp_path / "grey.png").open().getpixel((0, 0)) == (7, 7, 7)


def test_an_unreadable_picture_is_skipped_and_named(coco):
    path = unreadable(coco, 0)
    kept, skipped = usable(coco)
    assert kept.query_ids == ["COCO_val2014_000000000002"]
    assert kept.candidates == coco.candidates  # its captions stay, as wrong answers
    assert kept.matches == [[5, 6, 7, 8, 9]]
    assert len(skipped) == 1
    assert path.name in skipped[0]


def test_strict_stops_at_an_unreadable_picture(coco):
    path = unreadable(coco, 1)
    with pytest.raises(BadFile, match=path.name):
        usable(coco, strict=True)


def test_a_picture_that_goes_from_the_gallery_takes_its_queries(tmp_path):
    dataset = DATASETS["coco"](small.coco(tmp_path), query="text")
    dataset.candidates.sources[0].path.unlink()
    kept, skipped = usable(dataset)
    assert list(kept.candidate_ids) == ["COCO_val2014_000000000002"]
    assert kept.matches == [[0]] * 5
    assert len(skipped) == 1 + 5


def test_a_whole_dataset_stays_as_it_is(coco):
    kept, skipped = usable(coco, strict=True)
    assert skipped == []
    assert (kept.query_ids, kept.matches) == (coco.query_ids, coco.matches)


def test_items_in_memory_are_always_usable():
    dataset = Dataset("tiny", "text", "text", ["a", "b"], ["0", "1"], ["x"], [[0], [0]])
    kept, skipped = usable(dataset, strict=True)
    assert (len(kept), skipped) == (2, [])


def test_fewer_queries_ask_the_same_candidates(tmp_path):
    whole = DATASETS["cirr"](small.cirr(tmp_path))
    one = whole.asking([1])
    assert (one.query_ids, one.matches, one.subsets) == (["12130"], [[3]], [[0, 1, 3, 4, 5]])
    assert [list(each) for each in one.exclude] == [[2]]
    assert one.candidates is whole.candidates


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(BadInput, match="1 lists of matches"):
        Dataset("tiny", "text", "text", ["a", "b"], ["0", "1"], ["x"], [[0]])
    with pytest.raises(BadInput, match="labels for 1 of 2"):
        Dataset("tiny", "text", "text", ["a", "b"], ["0", "1"], ["x"], [[0], [0]], labels=["u"])
