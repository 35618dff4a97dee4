"""An operator's files of queries: bad lines are left out and logged, too many are refused."""

import base64
import json
import logging
from io import BytesIO
from types import SimpleNamespace

import pytest
from PIL import Image
from queries_to_send import png

from queryshift.errors import BadFile, BadInput
from queryshift.serving.errors import NotFound
from queryshift.serving.samples import FileWorld, corrupted, corruption_names, read_queries
from queryshift.serving.service import with_sample

GOOD = [json.dumps({"text": f"a red square, {place}"}) for place in range(9)]


def test_bad_lines_are_left_out_and_named(tmp_path, caplog):
    path = tmp_path / "ordinary.jsonl"
    path.write_text("\n".join([*GOOD[:4], json.dumps({"image": "x"}), *GOOD[4:]]))
    with caplog.at_level(logging.WARNING):
        assert len(read_queries(path, "text")) == 9
    assert "Left out of the queries of ordinary.jsonl" in caplog.text and "line 5" in caplog.text


def test_large_reference_images_are_made_small_before_the_next_is_decoded(tmp_path):
    Image.new("RGB", (400, 300)).save(tmp_path / "large.png")
    path = tmp_path / "reference.jsonl"
    path.write_text(json.dumps({"image_file": "large.png"}))
    collection = SimpleNamespace(
        modality="image",
        settings=SimpleNamespace(reference=path, strict=True),
        world=FileWorld(),
        reader=SimpleNamespace(prepare_item=lambda image: image.size),
        measured=list,
        with_reference=list,
    )
    assert with_sample(collection) == [(400, 300)]


def test_samples_leave_out_what_is_no_json(tmp_path, caplog):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(["{no json", *GOOD, json.dumps({"image_file": "gone.png"})]))
    with caplog.at_level(logging.WARNING):
        found = FileWorld(path).samples(0, 20)
    assert [sample["id"] for sample in found] == list(range(9))
    assert "line 1: no query" in caplog.text and "line 11: no query" in caplog.text


def test_a_file_with_many_bad_lines_is_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([*GOOD[:7], "1", "2"]))
    with pytest.raises(BadFile, match=r"2 of 9 queries of samples\.jsonl cannot be used"):
        FileWorld(path)


def test_strict_stops_at_the_first_bad_line(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"text": "a red square"}\n' * 9 + "no json\n")
    assert len(FileWorld(path).samples(0, 20)) == len(read_queries(path, "text")) == 9
    for read in (lambda: FileWorld(path, strict=True), lambda: read_queries(path, "text", True)):
        with pytest.raises(BadFile, match=r"queries of samples\.jsonl, line 10: no query"):
            read()


def test_a_query_names_a_file_that_lies_beside_it(tmp_path):
    (tmp_path / "one.png").write_bytes(png(1))
    (tmp_path / "queries.jsonl").write_text('{"image_file": "one.png"}\n' * 2)
    assert read_queries(tmp_path / "queries.jsonl", "image", strict=True) == [png(1)] * 2
    (sample, _) = FileWorld(tmp_path / "queries.jsonl", strict=True).samples(0, 8)
    assert base64.b64decode(sample["query"]["image"]) == png(1)


def test_texts_and_images_are_corrupted_each_with_noise_of_its_own():
    text = "a large red square above a small blue circle on a green ground"
    name = corruption_names("text")[0]
    assert corrupted(text, "text", name, 5)["text"] != text
    made = [corrupted(png(1), "image", "gaussian_noise", 1, *place) for place in ((), (0,), (1,))]
    assert made[0] == made[1] != made[2]
    for modality in ("audio", "vector", "image+text"):
        assert corruption_names(modality) == []
        with pytest.raises(NotFound, match="only images and texts"):
            corrupted(b"a", modality, "gaussian_noise", 1)


def test_an_image_that_is_too_large_is_not_corrupted():
    file = BytesIO()
    Image.new("L", (4200, 1050)).save(file, "PNG")
    with pytest.raises(BadInput, match="4200 x 1050 pixels are too many"):
        corrupted(file.getvalue(), "image", "gaussian_noise", 1)
