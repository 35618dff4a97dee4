"""Sound, captions and clips as files; pictures have a file of their own."""

import json
import sys

import numpy as np
import pytest
import soundfile
from PIL import Image

from queryshift.errors import BadFile, BadInput, MissingExtra, UnknownName
from queryshift.lab.corruptions.files import Recipe, corrupt_files, make_again
from queryshift.media.audio import read_audio
from queryshift.media.videos import read_clip


def picture(seed=0, size=(40, 30)):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels)


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


class TestSound:
    def test_keeps_rate_and_length_and_becomes_mono(self, tmp_path):
        stereo = np.random.default_rng(0).uniform(-0.1, 0.1, (5000, 2))
        for name in ("a.wav", "b.flac", "c.ogg"):
            soundfile.write(tmp_path / name, stereo, 11_025)
        recipe = Recipe("audio", "rain", 5)
        assert corrupt_files(recipe, tmp_path, tmp_path / "out").made == 3
        assert names(tmp_path / "out") == {"a.wav", "b.flac", "c.wav", "manifest.jsonl"}
        made, rate = soundfile.read(tmp_path / "out/b.flac")
        assert made.shape == (5000,) and rate == 11_025
        expected = recipe.apply(read_audio(tmp_path / "b.flac"), "b.flac").samples
        assert np.abs(made - expected).max() < 1e-4

    def test_damaged_and_silent_files_do_not_stop_a_run(self, tmp_path):
        (tmp_path / "bad.wav").write_bytes(b"RIFFxxxxWAVE")
        soundfile.write(tmp_path / "silent.wav", np.zeros(100), 16_000)
        soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16_000)
        summary = corrupt_files(Recipe("audio", "wind", 1), tmp_path, tmp_path / "out")
        assert summary.made == 2 and summary.problems[0].startswith("bad.wav: ")

    def test_of_absurd_length_is_refused_before_it_is_decoded(self, tmp_path, limited):
        limited(seconds=150 / 48_000)
        soundfile.write(tmp_path / "a.wav", np.zeros((100, 2)), 16_000)
        with pytest.raises(BadFile, match=r'/a\.wav": got 100 samples in 2 channels'):
            read_audio(tmp_path / "a.wav")

    def test_recordings_are_named_in_the_manifest(self, tmp_path):
        (tmp_path / "noise").mkdir()
        soundfile.write(tmp_path / "noise/rain.wav", np.sin(np.arange(999)), 16_000)
        soundfile.write(tmp_path / "a.wav", np.sin(np.arange(999) / 9) / 3, 16_000)
        recipe = Recipe("audio", "rain", 1, options={"noise": str(tmp_path / "noise")})
        listed = corrupt_files(recipe, tmp_path / "a.wav", tmp_path / "b.wav").manifest
        assert json.loads(listed.read_text())["backend"] == "recordings"


class TestCaptions:
    def test_each_has_a_generator_of_its_own(self, tmp_path):
        (tmp_path / "a.txt").write_text("a brown dog on a sofa\n\n" * 3)
        recipe = Recipe("text", "character_replace", 5)
        assert corrupt_files(recipe, tmp_path / "a.txt", tmp_path / "b.txt").made == 1
        lines = (tmp_path / "b.txt").read_text().split("\n")
        assert len(lines) == 7 and lines[1::2] == ["", "", ""]
        assert len({*lines[::2][:3], "a brown dog on a sofa"}) == 4
        assert lines[2] == recipe.apply("a brown dog on a sofa", "a.txt#3")

    def test_in_records_are_laid_out_as_published(self, tmp_path):
        records = [{"image": "1.jpg", "caption": ["a brown dog on a sofa"] * 5}]
        (tmp_path / "coco_karpathy_test.json").write_text(json.dumps(records))
        recipe = Recipe("text", "word_deletion", 5)
        corrupt_files(recipe, tmp_path, tmp_path / "coco-TP", layout="coco")
        made = tmp_path / "coco-TP/annotation_rd/7/coco_karpathy_test.json"
        (record,) = json.loads(made.read_text())
        assert record["image"] == "1.jpg" and len(record["caption"]) == 5
        assert all(len(each) < len("a brown dog on a sofa") for each in record["caption"])

    def test_options_reach_the_corruption(self, tmp_path):
        quirky = Recipe("text", "word_swap", 1, options={"preset": "mm_robustness"})
        assert quirky.apply("A DOG", "x") in ("a dog", "dog a")
        assert quirky.backend == "mm_robustness"
        assert Recipe("text", "casual", 1, options={"backend": "rules"}).backend == "rules"
        with pytest.raises(UnknownName, match="no text preset"):
            Recipe("text", "ocr", 1, options={"preset": "imagenet_c"})
        with pytest.raises(BadInput, match='"ocr" takes no backend; its options: preset'):
            Recipe("text", "ocr", 1, options={"backend": "models"})

    def test_a_level_from_3_to_7_is_a_severity(self):
        for level in range(3, 8):
            asked = Recipe.asked("text", "ocr", seed=4, options={"level": str(level)})
            assert asked == Recipe("text", "ocr", level - 2, seed=4)
        assert Recipe.asked("text", "ocr").severity == 5

    def test_levels_below_the_severities_are_made_again_and_laid_out(self, tmp_path):
        line = "a brown dog with a red collar sleeps on the old green sofa in the sun"
        (tmp_path / "a.txt").write_text(f"{line}\n" * 40)
        options = {"preset": "mm_robustness", "level": "1"}
        weak = Recipe.asked("text", "word_deletion", options=options)
        strong = Recipe.asked("text", "word_deletion", 1, options={"preset": "mm_robustness"})
        made = []
        for recipe, folder in ((weak, 1), (strong, 3)):
            listed = corrupt_files(recipe, tmp_path / "a.txt", tmp_path / "out", "coco").manifest
            made.append((tmp_path / f"out/annotation_rd/{folder}/a.txt").read_text())
        assert len(line) * 40 > len(made[0]) > len(made[1])
        again = make_again(listed, tmp_path, tmp_path / "again")
        assert (again.made, again.problems) == (2, ())

    @pytest.mark.parametrize("level", ["0", "8", "x", ""])
    def test_other_levels_are_refused(self, level):
        with pytest.raises(UnknownName, match=f'no level "{level}".* 1, 2, 3, 4, 5, 6, 7'):
            Recipe("text", "ocr", 1, options={"level": level})

    def test_what_cannot_be_made_is_said(self, tmp_path):
        (tmp_path / "a.txt").write_text("a dog\n")
        recipe = Recipe("text", "backtranslation", 1)
        (problem,) = corrupt_files(recipe, tmp_path / "a.txt", tmp_path / "out").problems
        assert problem.startswith("a.txt: back-translation needs")
        assert not (tmp_path / "out").exists()


class TestClips:
    @pytest.fixture
    def clips(self, tmp_path):
        for clip in ("cat", "dog"):
            (tmp_path / "clips" / clip).mkdir(parents=True)
            for frame in (1, 2, 10):
                picture(0).save(tmp_path / "clips" / clip / f"{frame}.png")
        return tmp_path / "clips"

    def test_are_folders_of_frames_in_natural_order(self, clips, tmp_path):
        recipe = Recipe("video", "gaussian_noise", 5)
        summary = corrupt_files(recipe, clips, tmp_path / "out")
        assert summary.made == 2
        entry = json.loads(summary.manifest.read_text().splitlines()[1])
        assert list(entry["files"]) == ["dog/1.png", "dog/2.png", "dog/10.png"]
        assert len(set(entry["files"].values())) == 3  # noise is drawn anew for each frame

    def test_come_out_alike_alone(self, clips, tmp_path):
        recipe = Recipe("video", "gaussian_noise", 2)
        corrupt_files(recipe, clips, tmp_path / "out")
        corrupt_files(recipe, clips / "dog", tmp_path / "alone")
        for name in ("dog/1.png", "dog/10.png"):
            alone = (tmp_path / "alone" / name).read_bytes()
            assert alone == (tmp_path / "out" / name).read_bytes()

    def test_come_out_alike_alone_from_any_depth(self, clips, tmp_path):
        recipe = Recipe("video", "gaussian_noise", 2)
        corrupt_files(recipe, tmp_path, tmp_path / "out")
        corrupt_files(recipe, clips / "dog", tmp_path / "alone", base=tmp_path)
        alone = names(tmp_path / "alone")
        assert alone == {f"clips/dog/{frame}.png" for frame in (1, 2, 10)} | {"manifest.jsonl"}
        for name in alone - {"manifest.jsonl"}:
            assert (tmp_path / "alone" / name).read_bytes() == (
                tmp_path / "out" / name
            ).read_bytes()

    def test_are_understood_and_laid_out_as_published(self, tmp_path):
        for frame in range(2):
            (tmp_path / f"in/frame_{frame}").mkdir(parents=True)
            picture(frame).save(tmp_path / f"in/frame_{frame}/cat.jpg")
        recipe = Recipe("video", "jpeg", 5)
        assert corrupt_files(recipe, tmp_path / "in", tmp_path / "in-C", layout="read").made == 1
        folder = tmp_path / "in-C/jpeg_compression/severity_5"
        assert names(folder) == {"frame_0/cat.jpg", "frame_1/cat.jpg"}

    def test_of_frames_of_two_sizes_are_refused(self, clips, tmp_path):
        picture(size=(20, 20)).save(clips / "cat/2.png")
        (problem,) = corrupt_files(Recipe("video", "jpeg", 1), clips, tmp_path / "out").problems
        assert problem.startswith("cat: ") and f'"{clips}/cat/2.png" has 20 x 20' in problem

    def test_in_video_files_need_an_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "av", None)
        (tmp_path / "film.mp4").write_bytes(b"film")
        with pytest.raises(MissingExtra, match=r"queryshift\[video\]"):
            corrupt_files(Recipe("video", "jpeg", 1), tmp_path / "film.mp4", tmp_path / "out")

    def test_in_video_files_give_ten_frames(self, tmp_path):
        av = pytest.importorskip("av")
        with av.open(tmp_path / "film.mp4", "w") as film:
            stream = film.add_stream("mpeg4", rate=10)
            stream.width, stream.height = 40, 30
            for index in range(25):
                film.mux(stream.encode(av.VideoFrame.from_image(picture(index))))
            film.mux(stream.encode(None))
        corrupt_files(Recipe("video", "contrast", 1), tmp_path, tmp_path / "out")
        assert len(names(tmp_path / "out/film")) == 10
        (tmp_path / "film.mp4").write_bytes(b"film")
        with pytest.raises(BadFile, match=r"film\.mp4"):
            read_clip([tmp_path / "film.mp4"])
