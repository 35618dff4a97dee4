"""AudioSet and VGGSound retrieval lists."""

import pytest
import small

from queryshift.lab.datasets import DATASETS, usable

LIST = "audioset_eval_5_per_class_for_retrieval_cleaned.json"


def test_frames_and_sounds_are_found_beside_the_list(tmp_path):
    dataset = DATASETS["audioset"](small.clips(tmp_path, LIST))
    assert (dataset.query, dataset.gallery) == ("video", "audio")
    assert dataset.query_ids == ["--clip0", "--clip1", "--clip2"]
    frames = dataset.queries[1]
    assert len(frames) == 10
    assert frames[9].getpixel((0, 0))[0] == pytest.approx(90, abs=8)
    sound = dataset.candidates[1]
    assert sound.rate == 16_000
    assert sound.samples[5] == pytest.approx(0.1, abs=1e-3)
    assert dataset.labels[0] == "/m/09x0r,/m/05zppz"


def test_a_clip_that_lost_frames_has_the_others(tmp_path):
    dataset = DATASETS["audioset"](small.clips(tmp_path, LIST), query="audio")
    assert dataset.gallery == "video"
    assert len(dataset.candidates[2]) == 8


def test_listed_places_under_the_root_win(tmp_path):
    root = small.clips(tmp_path, LIST)
    small.write_picture(root / "other" / "frame_0" / "a.jpg")
    (root / "sound").mkdir()
    (root / "audio" / "--clip0.wav").rename(root / "sound" / "a.flac.wav")
    record = {"video_id": "a", "wav": "sound/a.flac.wav", "video_path": "other"}
    small.write_json(root / LIST, {"data": [record]})
    dataset = DATASETS["audioset"](root)
    assert len(dataset.queries[0]) == 1
    assert dataset.candidates[0].rate == 16_000


def test_a_lost_clip_costs_its_own_query_only(tmp_path):
    root = small.clips(tmp_path, "vgg_test_5_per_class_for_retrieval_cleaned.json")
    for frame in range(10):
        (root / f"frame_{frame}" / "--clip0.jpg").unlink()
    (root / "audio" / "--clip1.wav").unlink()
    kept, skipped = usable(DATASETS["vggsound"](root))
    assert kept.query_ids == ["--clip2"]
    assert list(kept.candidate_ids) == ["--clip0", "--clip2"]
    assert kept.matches == [[1]]
    assert "frame_0/--clip0.jpg" in skipped[0]
    assert "audio/--clip1.flac" in skipped[1]  # as it is listed
    assert skipped[2] == 'query "--clip1" has no right answer left.'
