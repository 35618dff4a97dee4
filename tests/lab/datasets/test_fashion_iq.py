"""FashionIQ, one category at a time."""

import pytest
import small

from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS, usable
from queryshift.lab.datasets.fashion_iq import joined

FIQ = DATASETS["fashion-iq"]


@pytest.mark.parametrize(
    ("captions", "text"),
    [
        (["is Solid black.", "no belt"], "Is solid black and no belt"),
        (["Is longer?", ", has a V-neck. "], "Is longer and has a V-neck"),
        (["is longer", "  "], "Is longer"),
        (["", " "], ""),
        ([], ""),
    ],
)
def test_captions_are_joined_as_published(captions, text):
    assert joined(captions) == text


def test_a_query_is_a_picture_and_words(tmp_path):
    dataset = FIQ(small.fashion_iq(tmp_path), part="shirt")
    picture, text = dataset.queries[0]
    assert picture.mode == "RGB"
    assert text == "Is solid black and no belt"
    assert dataset.candidate_ids == ["B00S0", "B00S1", "B00S2", "B00S3"]
    assert [list(right) for right in dataset.matches] == [[1], [3]]
    assert not dataset.exclude  # the published evaluation leaves the reference in
    assert dataset.candidates[0].size == (6, 4)  # a PNG among JPEGs


def test_a_missing_or_foreign_target_is_named_or_refused(tmp_path):
    dataset = FIQ(small.fashion_iq(tmp_path))
    assert dataset.query_ids == ["dress-0", "dress-1"]
    assert dataset.left_out == [
        'record 2 of "cap.dress.val.json" has no target.',
        'record 3 of "cap.dress.val.json" has the target "B0GONE", which is not in the split.',
    ]
    assert dataset.counts == {"images": 4, "captions": 8, "pairs": 2}
    with pytest.raises(BadFile, match="has no target"):
        usable(dataset, strict=True)


def test_a_lost_picture_costs_the_queries_that_ask_with_it_or_for_it(tmp_path):
    root = small.fashion_iq(tmp_path)
    (root / "images" / "B00T0.png").unlink()  # the reference of the first
    kept, skipped = usable(FIQ(root, part="toptee"))
    assert kept.query_ids == ["toptee-1"]
    assert kept.matches == [[2]]
    assert len(skipped) == 1  # one file, though it is a query and a candidate
    assert "B00T0.png" in skipped[0]


def test_the_paper_counts_all_three_categories():
    assert sum(counts["pairs"] for counts in FIQ.parts.values()) == FIQ.paper["pairs"] == 6_016
