import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from queryshift.errors import BadInput, Error, UnknownName
from queryshift.lab.corruptions.files import (
    Recipe,
    corrupt_files,
    corrupt_item,
    make_again,
)
from queryshift.support import processes

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

    @pytest.mark.parametrize("here", [".", "photos/more"])
    def test_deep_in_a_folder_come_out_alike_when_its_top_is_named(
        self, photos, tmp_path, monkeypatch, here
    ):
        corrupt_files(NOISE, photos, tmp_path / "whole")
        monkeypatch.chdir(tmp_path / here)
        top = Path(os.path.relpath(photos))
        part, file = (Path(os.path.relpath(photos / one)) for one in ("more", "more/deep.png"))
        corrupt_files(NOISE, part, tmp_path / "part", base=top)
        corrupt_files(NOISE, file, tmp_path / "file", base=top)
        corrupt_files(NOISE, file, tmp_path / "alone.png", base=top)
        corrupt_files(NOISE, file, tmp_path / "other.png")
        made = contents(tmp_path / "whole")["more/deep.png"]
        assert set(contents(tmp_path / "part")) == {"more/deep.png", "manifest.jsonl"}
        assert contents(tmp_path / "part") == contents(tmp_path / "file")
        assert contents(tmp_path / "file")["more/deep.png"] == made
        assert (tmp_path / "alone.png").read_bytes() == made
        assert (tmp_path / "other.png").read_bytes() != made
        assert corrupt_files(NOISE, file, tmp_path / "whole", base=top).kept == 1

    def test_that_are_links_belong_where_the_link_lies(self, photos, tmp_path):
        picture(5).save(tmp_path / "elsewhere.png")
        (photos / "more" / "link.png").symlink_to(tmp_path / "elsewhere.png")
        corrupt_files(NOISE, photos / "more" / "link.png", tmp_path / "out", base=photos)
        assert "more/link.png" in contents(tmp_path / "out")

    def test_do_not_lie_outside_the_base(self, photos, tmp_path):
        with pytest.raises(BadInput, match=r'0\.jpg" does not lie below the base .*more"'):
            corrupt_files(NOISE, photos / "0.jpg", tmp_path / "out", base=photos / "more")

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

    @pytest.mark.parametrize("name", ["0.jpg", ".0.jpg.part"])
    def test_by_a_linked_file(self, name, photos, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "precious.txt").write_text("mine")
        (tmp_path / "out" / name).symlink_to(tmp_path / "precious.txt")
        assert corrupt_files(FOG, photos, tmp_path / "out").made == 5
        assert (tmp_path / "precious.txt").read_text() == "mine"

    def test_by_a_linked_manifest(self, photos, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out/manifest.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
        with pytest.raises(BadInput, match="is a link"):
            corrupt_files(FOG, photos, tmp_path / "out")
        assert not (tmp_path / "elsewhere.jsonl").exists()

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
            corrupt_item.write_whole(tmp_path / "a.jpg", b"picture")
        assert not contents(tmp_path)

    def test_input_and_output_must_differ(self, photos):
        with pytest.raises(BadInput, match="input and as output"):
            corrupt_files(FOG, photos, photos)
        with pytest.raises(BadInput, match="clean file and would be overwritten"):
            corrupt_files(FOG, photos / "0.jpg", photos / "0.jpg")

    def test_the_output_of_a_folder_is_a_folder(self, photos, tmp_path):
        (tmp_path / "notes.jpg").write_text("mine")
        with pytest.raises(BadInput, match=r'notes\.jpg" is a file'):
            corrupt_files(FOG, photos, tmp_path / "notes.jpg")

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


def test_file_names_of_any_kind_are_kept(tmp_path):
    names = ["sp ace.jpg", "ünï.jpg", "-dash.jpg", "new\nline.jpg", os.fsdecode(b"\xff.jpg")]
    (tmp_path / "in").mkdir()
    for name in names:
        picture().save(tmp_path / "in" / name)
    summary = corrupt_files(FOG, tmp_path / "in", tmp_path / "out")
    assert summary.made == 5
    assert corrupt_files(FOG, tmp_path / "in", tmp_path / "out").kept == 5
    assert {path.name for path in (tmp_path / "out").glob("*.jpg")} == set(names)


def test_a_worker_that_is_ended_is_a_sentence():
    with pytest.raises(Error, match="a worker process was ended from outside"):
        list(processes.each(os._exit, [1, 1], jobs=2))


def test_only_much_work_is_shared_by_default(monkeypatch):
    monkeypatch.setattr(processes, "ProcessPoolExecutor", None)
    assert list(processes.each(abs, range(-15, 0))) == list(range(15, 0, -1))
    with pytest.raises(TypeError):
        monkeypatch.setattr(processes, "processors", lambda: 2)
        list(processes.each(abs, range(16)))
