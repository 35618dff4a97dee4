"""Flickr8k from its publisher's own files: the token file and the lists of its splits."""

import pytest
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS
from small_datasets import small

TOKENS = "Flicker8k_text/Flickr8k.token.txt"


def test_a_split_is_its_list_in_its_order(tmp_path):
    root = small.flickr8k(tmp_path)
    listed = root / "Flicker8k_text" / "Flickr_8k.testImages.txt"
    listed.write_text("2_b.jpg\n1_a.jpg\n")
    dataset = DATASETS["flickr8k"](root)
    assert dataset.query_ids == ["2_b", "1_a"]
    assert dataset.candidates[0] == "Caption 0 of 2 ."
    assert dataset.matches == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert dataset.queries[0].getpixel((0, 0))[0] in range(0, 6)
    assert dataset.left_out == []


def test_val_is_the_list_they_call_dev(tmp_path):
    dataset = DATASETS["flickr8k"](small.flickr8k(tmp_path), query="text", part="val")
    assert dataset.query_ids == [f"3_c#{place}" for place in range(5)]
    assert len(dataset.candidates) == 1


def test_texts_may_lie_beside_the_pictures_folder(tmp_path):
    root = small.flickr8k(tmp_path)
    for file in (root / "Flicker8k_text").iterdir():
        file.rename(root / file.name)
    assert len(DATASETS["flickr8k"](root)) == 2


def test_a_listed_picture_without_captions_is_named(tmp_path):
    root = small.flickr8k(tmp_path)
    tokens = root / TOKENS
    lines = tokens.read_text().splitlines()
    tokens.write_text("\n".join(line for line in lines if not line.startswith("1_a")))
    dataset = DATASETS["flickr8k"](root)
    assert dataset.query_ids == ["2_b"]
    assert dataset.left_out == ['image "1_a" has no caption.']


@pytest.mark.parametrize("line", ["1_a.jpg a caption without its number", "1_a.jpg\tno number"])
def test_a_damaged_line_is_named(tmp_path, line):
    root = small.flickr8k(tmp_path)
    tokens = root / TOKENS
    tokens.write_text(tokens.read_text() + line + "\n")
    with pytest.raises(BadFile, match=r"Flickr8k\.token\.txt.*line 31 is '1_a\.jpg"):
        DATASETS["flickr8k"](root)


def test_files_that_lack_are_named(tmp_path):
    with pytest.raises(BadFile, match=r'no "Flicker8k_text/Flickr8k\.token\.txt" or'):
        DATASETS["flickr8k"](tmp_path)
    root = small.flickr8k(tmp_path)
    (root / "Flicker8k_text" / "Flickr_8k.testImages.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match="cannot be read as text"):
        DATASETS["flickr8k"](root)


def test_check_counts_and_names_a_picture_that_lacks(tmp_path):
    root = small.flickr8k(tmp_path)
    (root / "Flicker8k_Dataset" / "2_b.jpg").unlink()
    told = CliRunner().invoke(main, ["data", "check", "flickr8k", "--root", str(root)])
    assert told.exit_code == 1
    assert "2_b.jpg" in told.output.replace("\n", "")
    assert "1,000" in told.output
