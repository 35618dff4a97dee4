"""Queries that were corrupted beforehand, from folders in the published layouts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from PIL import Image

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.files import Recipe, corrupt_files
from queryshift.lab.datasets import Dataset
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.runner.corrupted_folders import corrupted_beforehand


def dataset(query, queries, ids=None):
    ids = ids or [str(row) for row in range(len(queries))]
    return Dataset("few", query, "any", queries, ids, ["a"], [[0]] * len(queries))


def row(name, *shifts):
    return replace(BENCHMARKS[name], shifts=shifts)


def test_captions_stand_in_order(tmp_path):
    clean = ["A man rides a horse.", "Two dogs.", "A red bus on a street."]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "captions.txt").write_text("\n".join(clean))
    made = tmp_path / "made"
    corrupt_files(Recipe("text", "character_swap", 5), tmp_path / "in", made, "coco")
    found = corrupted_beforehand(
        BENCHMARKS["coco-o-text"], dataset("text", clean), "character_swap", 5, made
    )
    assert len(found) == 3 and list(found) != clean
    fewer = dataset("text", clean[:2])
    with pytest.raises(BadFile, match="names no images, expected one for each of the 2"):
        corrupted_beforehand(BENCHMARKS["coco-o-text"], fewer, "character_swap", 5, made)


def test_the_published_test_file_counts_beside_the_others(tmp_path):
    folder = tmp_path / "annotation_sr" / "7"
    folder.mkdir(parents=True)
    for split in ("train", "val", "test"):
        records = [{"image": "a.jpg", "caption": [f"{split} one", f"{split} two"]}]
        (folder / f"coco_karpathy_{split}.json").write_text(json.dumps(records))
    asked = dataset("text", ["one", "two"], ["a#0", "a#1"])
    found = corrupted_beforehand(
        BENCHMARKS["coco-o-text"], asked, "synonym_replacement", 5, tmp_path
    )
    assert list(found) == ["test one", "test two"]


def test_captions_are_found_by_their_picture(tmp_path):
    """COCO's sixth caption is no query, some pictures cannot be read, a trial asks only a few."""
    folder = tmp_path / "annotation_rs" / "7"
    folder.mkdir(parents=True)
    records = [
        {"image": "val2014/a.jpg", "caption": [f"a {at}" for at in range(7)]},
        {"image": "val2014/b.jpg", "caption": [f"b {at}" for at in range(5)]},
        {"image": "val2014/c.jpg", "caption": "c 0"},
        {"image": "val2014/c.jpg", "caption": "c 1"},
    ]
    (folder / "coco_karpathy_test.json").write_text(json.dumps(records))

    def found(*ids):
        asked = dataset("text", ["clean"] * len(ids), list(ids))
        return corrupted_beforehand(BENCHMARKS["coco-o-text"], asked, "word_swap", 5, tmp_path)

    assert found("b#0", "a#4", "c#1") == ["b 0", "a 4", "c 1"]
    with pytest.raises(BadFile, match='nothing for 1 of 2 queries, the first is "b#5"'):
        found("b#0", "b#5")


def test_clips_and_sounds_are_found_by_name(tmp_path):
    for frame in range(3):
        path = tmp_path / "fog" / "severity_5" / f"frame_{frame}" / "b.jpg"
        path.parent.mkdir(parents=True)
        Image.new("RGB", (8, 6), (frame, 0, 0)).save(path)
    rain = tmp_path / "rain" / "severity_5" / "a.wav"
    rain.parent.mkdir(parents=True)
    soundfile.write(rain, np.zeros(100), 16_000)
    video = row("audioset-o-video", "fog")
    (clip,) = corrupted_beforehand(video, dataset("video", ["clean"], ["b"]), "fog", 5, tmp_path)
    assert [frame.size for frame in clip] == [(8, 6)] * 3
    audio = row("audioset-o-audio", "rain")
    (sound,) = corrupted_beforehand(audio, dataset("audio", ["clean"], ["a"]), "rain", 5, tmp_path)
    assert len(sound) == 100
    with pytest.raises(BadFile, match='nothing for 1 of 2 queries, the first is "c"'):
        corrupted_beforehand(audio, dataset("audio", ["x", "y"], ["a", "c"]), "rain", 5, tmp_path)


@pytest.mark.parametrize(("name", "shift"), [("coco-d-image", ""), ("fiq-o", "noise+word")])
def test_mixtures_are_made_as_they_are_asked(name, shift, tmp_path):
    with pytest.raises(BadInput, match="leave --from-folder out"):
        corrupted_beforehand(BENCHMARKS[name], dataset("image", ["x"]), shift, 5, tmp_path)
