"""Films become frames and waveforms."""

import sys

import numpy as np
import pytest
import small
import soundfile
from PIL import Image

from queryshift.errors import BadFile, MissingExtra
from queryshift.lab.datasets import DATASETS
from queryshift.lab.datasets.reading.extract_frames import CAV_MAE, extract
from queryshift.media.videos import THROUGHOUT, Sampling, read_frames


def write_film(path, seconds=12, sound=True):
    """A film at 5 frames a second whose shade grows with time, and stereo with a silent right."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as film:
        video = film.add_stream("mpeg4", rate=5, width=320, height=160, pix_fmt="yuv420p")
        audio = film.add_stream("pcm_s16le", rate=32_000, layout="stereo") if sound else None
        for number in range(5 * seconds):
            pixels = np.full((160, 320, 3), min(4 * number, 255), np.uint8)
            film.mux(video.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        film.mux(video.encode())
        if audio:
            left = 0.5 * np.sin(2 * np.pi * 440 * np.arange(32_000 * seconds) / 32_000)
            both = np.stack([left * 32767, 0 * left], axis=1).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(both, "s16", "stereo")
            frame.sample_rate = 32_000
            film.mux(audio.encode(frame))
            film.mux(audio.encode())


@pytest.fixture
def films(tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    write_film(folder / "a.mkv")
    return folder


def test_ten_frames_of_ten_seconds_and_the_first_channel(films, tmp_path):
    out = tmp_path / "out"
    outcome = extract(films, out)
    assert (outcome.done, outcome.there, outcome.failed) == (["a.mkv"], [], [])
    for number in range(10):  # frames 0, 5, ..., 45 of the first 50
        with Image.open(out / f"frame_{number}" / "a.jpg") as frame:
            assert frame.size == (224, 224)
            assert frame.getpixel((100, 100))[0] == pytest.approx(20 * number, abs=6)
    samples, rate = soundfile.read(out / "audio" / "a.wav")
    assert (samples.ndim, rate) == (1, 16_000)
    assert len(samples) == pytest.approx(12 * 16_000, abs=64)
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.02)
    spectrum = np.abs(np.fft.rfft(samples[:16_000]))
    assert spectrum.argmax() == 440


@pytest.mark.parametrize(
    ("sampling", "numbers"),
    [
        (THROUGHOUT, range(3, 60, 6)),  # the middles of ten parts of all 60
        (CAV_MAE, range(0, 50, 5)),
        (Sampling(within=0.5, seconds=1), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]),
    ],
)
def test_one_reader_takes_ten_frames_by_any_rule(films, sampling, numbers):
    found = [frame.getpixel((100, 100))[0] for frame in read_frames(films / "a.mkv", sampling)]
    assert found == pytest.approx([4 * number for number in numbers], abs=6)


def test_films_of_absurd_size_are_refused(films, limited):
    limited(pixels=320 * 160)
    with pytest.raises(BadFile, match=r'/a\.mkv": got 320 x 160 pixels; 51,200 or more'):
        read_frames(films / "a.mkv")


def test_a_film_without_frames_is_named(films):
    write_film(films / "short.mkv", seconds=0, sound=False)
    with pytest.raises(BadFile, match=r"short\.mkv"):
        read_frames(films / "short.mkv")


def test_what_was_extracted_is_a_dataset(films, tmp_path):
    out = tmp_path / "out"
    extract(films, out)
    record = {"video_id": "a", "wav": "/theirs/a.wav", "video_path": "/theirs"}
    small.write_json(out / "vgg_test_5_per_class_for_retrieval.json", {"data": [record]})
    dataset = DATASETS["vggsound"](out)
    assert len(dataset.queries[0]) == 10
    assert dataset.candidates[0].rate == 16_000


def test_damaged_and_mute_films_are_named_and_the_rest_is_done(films, tmp_path):
    write_film(films / "mute.mkv", seconds=1, sound=False)
    (films / "broken.mp4").write_bytes(b"no film")
    (films / "notes.txt").write_text("not a film either")
    outcome = extract(films, tmp_path / "out")
    assert outcome.done == ["a.mkv"]
    assert len(outcome.failed) == 2
    assert str(films / "broken.mp4") in outcome.failed[0]
    assert str(films / "mute.mkv") in outcome.failed[1]
    assert "it has no audio" in outcome.failed[1]
    assert extract(films, tmp_path / "out").there == ["a.mkv"]


def test_two_films_of_one_name_are_not_taken_for_one(films, tmp_path):
    (films / "a.mp4").write_bytes((films / "a.mkv").read_bytes())
    for _ in range(2):
        outcome = extract(films, tmp_path / "out")
        assert outcome.done + outcome.there == ["a.mkv"]
        assert outcome.failed == ['"a.mp4" and "a.mkv" would become the same files: rename one.']


def test_a_folder_without_films_is_refused(tmp_path):
    with pytest.raises(BadFile, match="has no videos"):
        extract(tmp_path, tmp_path / "out")


def test_without_pyav_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").touch()
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtra, match=r"queryshift\[video\]"):
        extract(tmp_path, tmp_path / "out")
