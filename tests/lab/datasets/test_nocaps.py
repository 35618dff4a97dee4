"""Nocaps by domain."""

import pytest
import small

from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS, usable

NOCAPS = DATASETS["nocaps"]


@pytest.mark.parametrize(
    ("domain", "pictures"), [("in-domain", 1), ("near-domain", 2), ("out-domain", 1), ("entire", 4)]
)
def test_a_domain_is_a_part(tmp_path, domain, pictures):
    dataset = NOCAPS(small.nocaps(tmp_path), part=domain)
    assert dataset.counts == {
        "images": pictures,
        "captions": 10 * pictures,
        "pairs": 10 * pictures,
    }
    assert domain in {*dataset.labels, "entire"}


def test_all_ten_captions_ask(tmp_path):
    dataset = NOCAPS(small.nocaps(tmp_path), query="text", part="out-domain")
    assert len(dataset) == 10
    assert dataset.queries[9] == "Caption 9 of 3."
    assert dataset.labels == ["out-domain"] * 10
    assert dataset.candidates[0].size == (6, 4)


def test_a_caption_without_a_picture_is_named_or_refused(tmp_path):
    dataset = NOCAPS(small.nocaps(tmp_path))
    sentence = 'caption 99 is of image 77, which "nocaps_val_4500_captions.json" lacks.'
    assert list(dataset.left_out) == [sentence]
    assert usable(dataset)[1] == [sentence]
    with pytest.raises(BadFile, match="caption 99 is of image 77"):
        usable(dataset, strict=True)


def test_the_image_info_without_captions_is_refused(tmp_path):
    small.write_json(tmp_path / "nocaps_val_4500_captions.json", {"images": []})
    with pytest.raises(BadFile, match="annotations"):
        NOCAPS(tmp_path)


def test_in_and_out_domain_are_the_papers_count():
    inside, outside = NOCAPS.parts["in-domain"], NOCAPS.parts["out-domain"]
    assert inside["images"] + outside["images"] == NOCAPS.paper["images"] == 1_562
    assert sum(NOCAPS.parts[part]["images"] for part in list(NOCAPS.parts)[:3]) == 4_500
