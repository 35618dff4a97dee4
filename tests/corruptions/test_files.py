import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from queryshift.corruptions.files import Recipe, corrupt_files, formats, make_again, making
from queryshift.errors import BadFile, BadInput, MissingExtra, UnknownName

FOG = Recipe("image", "fog", 3)
NOISE = Recipe("image", "gaussian_noise", 5, seed=7)


def picture(seed=0, size=(40, 30), mode="RGB"):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


def chunk(kind, data):
    """A piece of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def opened(path):
    with Image.open(path) as image:
        image.load()
    return image


def contents(folder):
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for index in range(4):
        picture(index).save(folder / f"{index}.jpg")
    picture(9).save(folder / "more" / "deep.png")
    return folder


class TestPictures:
    def test_are_made_below_the_output_folder_with_a_manifest(self, photos, tmp_path):
        summary = corrupt_files(NOISE, photos, tmp_path / "out")
        assert (summary.made, summary.kept, summary.problems) == (5, 0, ())
        assert set(contents(tmp_path / "out")) == {*contents(photos), "manifest.jsonl"}
        made = np.asarray(opened(tmp_path / "out/more/deep.png"))
        expected = NOISE.apply(opened(photos / "more/deep.png"), "more/deep.png")
        assert np.array_equal(made, np.asarray(expected))

    def test_come_out_alike_alone_in_a_folder_and_in_two_processes(self, photos, tmp_path):
        corrupt_files(NOISE, photos, tmp_path / "one", jobs=1)
        corrupt_files(NOISE, photos, tmp_path / "two", jobs=2)
        corrupt_files(NOISE, photos / "2.jpg", tmp_path / "alone.jpg")
        assert contents(tmp_path / "one") == contents(tmp_path / "two")
        assert (tmp_path / "alone.jpg").read_bytes() == (tmp_path / "one/2.jpg").read_bytes()

    def test_of_a_single_file_may_be_named_or_put_in_a_folder(self, photos, tmp_path):
        corrupt_files(FOG, photos / "1.jpg", tmp_path / "named.png")
        corrupt_files(FOG, photos / "1.jpg", tmp_path / "folder")
        assert opened(tmp_path / "named.png").format == "PNG"
        assert opened(tmp_path / "folder" / "1.jpg").format == "JPEG"

    @pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "CMYK"])
    def test_of_other_modes_become_rgb(self, mode, tmp_path):
        suffix = "jpg" if mode == "CMYK" else "png"
        picture(mode=mode).save(tmp_path / f"a.{suffix}")
        assert corrupt_files(FOG, tmp_path / f"a.{suffix}", tmp_path / "out").made == 1
        assert opened(tmp_path / "out" / f"a.{suffix}").mode == "RGB"

    def test_of_16_bits_are_refused_with_a_sentence(self, tmp_path):
        Image.fromarray(np.zeros((8, 8), np.uint16)).save(tmp_path / "a.png")
        (problem,) = corrupt_files(FOG, tmp_path / "a.png", tmp_path / "out").problems
        assert problem.startswith("a.png: ") and "8 bit" in problem

    def test_are_turned_upright(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6  # turned by a quarter
        picture(size=(40, 30)).save(tmp_path / "a.jpg", exif=exif)
        corrupt_files(FOG, tmp_path / "a.jpg", tmp_path / "b.jpg")
        assert opened(tmp_path / "b.jpg").size == (30, 40)

    def test_of_absurd_size_are_refused_before_they_are_decoded(self, tmp_path):
        for side in (9_000, 12_000, 60_000):  # under, over and far over Pillow's own limits
            header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
            png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", bytes(99))
            (tmp_path / "huge.png").write_bytes(png)
            (problem,) = corrupt_files(FOG, tmp_path / "huge.png", tmp_path / "out").problems
            assert "huge.png" in problem and "pixels" in problem


class TestAnotherRun:
    def test_keeps_what_is_there(self, photos, tmp_path):
        corrupt_files(FOG, photos, tmp_path / "out")
        before = (tmp_path / "out/0.jpg").stat().st_mtime_ns
        again = corrupt_files(FOG, photos, tmp_path / "out")
        assert (again.made, again.kept) == (0, 5)
        assert (tmp_path / "out/0.jpg").stat().st_mtime_ns == before

    def test_mends_what_was_changed_or_deleted(self, photos, tmp_path):
        corrupt_files(FOG, photos, tmp_path / "out")
        good = contents(tmp_path / "out")
        (tmp_path / "out/0.jpg").write_bytes(b"half")
        (tmp_path / "out/more/deep.png").unlink()
        assert corrupt_files(FOG, photos, tmp_path / "out").made == 2
        mended = contents(tmp_path / "out")
        assert {**mended, "manifest.jsonl": b""} == {**good, "manifest.jsonl": b""}

    def test_notices_a_new_clean_file_and_another_recipe(self, photos, tmp_path):
        corrupt_files(FOG, photos, tmp_path / "out")
        picture(77).save(photos / "0.jpg")
        assert corrupt_files(FOG, photos, tmp_path / "out").made == 1
        assert corrupt_files(Recipe("image", "fog", 4), photos, tmp_path / "out").made == 5
        assert corrupt_files(Recipe("image", "fog", 4, seed=1), photos, tmp_path / "out").made == 5


class TestTheManifest:
    def test_says_how_each_file_was_made(self, photos, tmp_path):
        recipe = Recipe("image", "frost", 2, 3, {"preset": "mm_robustness"})
        listed = corrupt_files(recipe, photos, tmp_path / "out").manifest
        entry = json.loads(listed.read_text().splitlines()[0])
        assert entry["id"] == "0.jpg" and list(entry["files"]) == ["0.jpg"]
        assert (entry["corruption"], entry["severity"], entry["seed"]) == ("frost", 2, 3)
        assert entry["backend"] == "mm_robustness" and entry["version"]

    def test_makes_the_same_files_again(self, photos, tmp_path):
        corrupt_files(FOG, photos / "3.jpg", tmp_path / "out")
        listed = corrupt_files(NOISE, photos, tmp_path / "out").manifest
        summary = make_again(listed, photos, tmp_path / "again")
        assert (summary.made, summary.problems) == (5, ())
        first, second = contents(tmp_path / "out"), contents(tmp_path / "again")
        assert {**first, "manifest.jsonl": 0} == {**second, "manifest.jsonl": 0}
        assert make_again(listed, photos, tmp_path / "again").kept == 5

    def test_objects_when_they_cannot_be_the_same(self, photos, tmp_path):
        listed = corrupt_files(NOISE, photos, tmp_path / "out").manifest
        (photos / "1.jpg").unlink()
        picture(55).save(photos / "2.jpg")
        tampered = listed.read_text().replace('"seed": 7', '"seed": 8', 1)
        listed.write_text(tampered)
        gone, other_seed, other_source = make_again(listed, photos, tmp_path / "again").problems
        assert gone.startswith("1.jpg: there is no such item")
        assert other_seed.startswith("0.jpg: came out differently")
        assert other_source.startswith("2.jpg: the clean file is not the one")


class TestNothingLeavesTheOutputFolder:
    def test_by_a_link(self, photos, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "out").mkdir()
        (tmp_path / "out/more").symlink_to(tmp_path / "elsewhere")
        (problem,) = corrupt_files(FOG, photos, tmp_path / "out").problems
        assert problem.startswith("more/deep.png: ") and "leads out" in problem
        assert not contents(tmp_path / "elsewhere")

    def test_by_a_linked_file(self, photos, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "precious.txt").write_text("mine")
        (tmp_path / "out/0.jpg").symlink_to(tmp_path / "precious.txt")
        assert corrupt_files(FOG, photos, tmp_path / "out").made == 5
        assert (tmp_path / "precious.txt").read_text() == "mine"

    @pytest.mark.parametrize("name", ["../evil.jpg", "a/../../evil.jpg", "/tmp/evil.jpg", "", "."])
    def test_by_a_forged_manifest(self, name, photos, tmp_path):
        listed = corrupt_files(FOG, photos / "0.jpg", tmp_path / "out").manifest
        entry = json.loads(listed.read_text())
        (tmp_path / "forged.jsonl").write_text(json.dumps({**entry, "files": {name: "0"}}) + "\n")
        (problem,) = make_again(tmp_path / "forged.jsonl", photos, tmp_path / "out/deep").problems
        assert "inside the output folder" in problem
        assert not list(tmp_path.rglob("evil*"))


def test_a_manifest_with_too_many_files_is_refused(photos, tmp_path):
    listed = corrupt_files(FOG, photos / "0.jpg", tmp_path / "out").manifest
    listed.write_text(listed.read_text().replace('"files": {', '"files": {"b.jpg": "0", '))
    (problem,) = make_again(listed, photos, tmp_path / "again").problems
    assert problem == "0.jpg: 1 files come out, 2 were expected."


class TestBadInput:
    def test_a_damaged_file_is_named_and_the_others_are_made(self, photos, tmp_path):
        whole = (photos / "1.jpg").read_bytes()
        (photos / "1.jpg").write_bytes(whole[: len(whole) // 2])
        (photos / "2.jpg").write_bytes(b"")
        summary = corrupt_files(FOG, photos, tmp_path / "out")
        assert summary.made == 3
        assert [problem.split(":")[0] for problem in summary.problems] == ["1.jpg", "2.jpg"]
        assert not (tmp_path / "out/1.jpg").exists()

    def test_a_failed_write_leaves_nothing_behind(self, tmp_path, monkeypatch):
        def full(self, target):
            raise OSError("disk full")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            making.write_whole(tmp_path / "a.jpg", b"picture")
        assert not contents(tmp_path)

    def test_input_and_output_must_differ(self, photos):
        with pytest.raises(BadInput, match="input and as output"):
            corrupt_files(FOG, photos, photos)
        with pytest.raises(BadInput, match="clean file and would be overwritten"):
            corrupt_files(FOG, photos / "0.jpg", photos / "0.jpg")

    def test_outputs_inside_the_input_are_not_taken_for_input(self, photos):
        assert corrupt_files(FOG, photos, photos / "foggy").made == 5
        assert corrupt_files(FOG, photos, photos / "foggy").kept == 5

    def test_two_files_must_not_become_one(self, photos, tmp_path):
        picture().save(photos / "0.png")
        picture().save(photos / "0.bmp")
        with pytest.raises(BadInput, match=r'"0\.bmp" and "0\.png" would both become "0\.png"'):
            corrupt_files(FOG, photos, tmp_path / "out")

    def test_nothing_to_do_is_said(self, tmp_path):
        with pytest.raises(BadInput, match="no file or folder"):
            corrupt_files(FOG, tmp_path / "nowhere", tmp_path / "out")
        with pytest.raises(BadInput, match="holds no image files"):
            corrupt_files(FOG, tmp_path, tmp_path / "out")

    def test_recipes_are_checked_at_once(self):
        with pytest.raises(BadInput, match="severity is 6"):
            Recipe("image", "fog", 6)
        with pytest.raises(UnknownName, match='did you mean "fog"'):
            Recipe("image", "fogg", 1)
        with pytest.raises(BadInput, match='"fog" takes no textures; its options: preset'):
            Recipe("image", "fog", 1, options={"textures": "ice"})
        with pytest.raises(BadInput, match='"gaussian_noise" takes no noise'):
            Recipe("audio", "gaussian_noise", 1, options={"noise": "folder"})
        with pytest.raises(UnknownName, match="no preset"):
            Recipe("video", "contrast", 1, options={"preset": "imagenet"})


class TestSound:
    def test_keeps_rate_and_length_and_becomes_mono(self, tmp_path):
        stereo = np.random.default_rng(0).uniform(-0.1, 0.1, (5000, 2))
        for name in ("a.wav", "b.flac", "c.ogg"):
            soundfile.write(tmp_path / name, stereo, 11_025)
        recipe = Recipe("audio", "rain", 5)
        assert corrupt_files(recipe, tmp_path, tmp_path / "out").made == 3
        assert set(contents(tmp_path / "out")) == {"a.wav", "b.flac", "c.wav", "manifest.jsonl"}
        made, rate = soundfile.read(tmp_path / "out/b.flac")
        assert made.shape == (5000,) and rate == 11_025
        expected = recipe.apply(formats.read_sound(tmp_path / "b.flac"), "b.flac").samples
        assert np.abs(made - expected).max() < 1e-4

    def test_damaged_and_silent_files_do_not_stop_a_run(self, tmp_path):
        (tmp_path / "bad.wav").write_bytes(b"RIFFxxxxWAVE")
        soundfile.write(tmp_path / "silent.wav", np.zeros(100), 16_000)
        soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16_000)
        summary = corrupt_files(Recipe("audio", "wind", 1), tmp_path, tmp_path / "out")
        assert summary.made == 2 and summary.problems[0].startswith("bad.wav: ")

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
        recipe = Recipe("video", "contrast", 2)
        corrupt_files(recipe, clips, tmp_path / "out")
        corrupt_files(recipe, clips / "dog", tmp_path / "alone")
        dogs = {name: each for name, each in contents(tmp_path / "out").items() if "dog" in name}
        assert dogs.items() <= contents(tmp_path / "alone").items()

    def test_are_understood_and_laid_out_as_published(self, tmp_path):
        for frame in range(2):
            (tmp_path / f"in/frame_{frame}").mkdir(parents=True)
            picture(frame).save(tmp_path / f"in/frame_{frame}/cat.jpg")
        recipe = Recipe("video", "jpeg", 5)
        assert corrupt_files(recipe, tmp_path / "in", tmp_path / "in-C", layout="read").made == 1
        folder = tmp_path / "in-C/jpeg_compression/severity_5"
        assert set(contents(folder)) == {"frame_0/cat.jpg", "frame_1/cat.jpg"}

    def test_of_frames_of_two_sizes_are_refused(self, clips, tmp_path):
        picture(size=(20, 20)).save(clips / "cat/2.png")
        (problem,) = corrupt_files(Recipe("video", "jpeg", 1), clips, tmp_path / "out").problems
        assert problem.startswith("cat: ") and "20 x 20 and 40 x 30" in problem

    def test_in_video_files_need_an_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "av", None)
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
        assert len(contents(tmp_path / "out/film")) == 10
        (tmp_path / "film.mp4").write_bytes(b"film")
        with pytest.raises(BadFile, match=r"film\.mp4"):
            formats.read_clip([tmp_path / "film.mp4"])


def test_file_names_of_any_kind_are_kept(tmp_path):
    names = ["sp ace.jpg", "ünï.jpg", "-dash.jpg", "new\nline.jpg", os.fsdecode(b"\xff.jpg")]
    (tmp_path / "in").mkdir()
    for name in names:
        picture().save(tmp_path / "in" / name)
    summary = corrupt_files(FOG, tmp_path / "in", tmp_path / "out")
    assert summary.made == 5
    assert corrupt_files(FOG, tmp_path / "in", tmp_path / "out").kept == 5
    assert {path.name for path in (tmp_path / "out").glob("*.jpg")} == set(names)
