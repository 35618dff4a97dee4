import os
import signal
import sys
import time
from hashlib import sha256

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from forked_commands import start
from queryshift.cli import main
from queryshift.cli.options import CONTINUE
from queryshift.lab.corruptions.contact_sheet import GAP, LABEL
from queryshift.lab.corruptions.files import manifest


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for index in range(3):
        pixels = np.random.default_rng(index).integers(0, 256, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{index}.jpg")
    return tmp_path / "photos"


def corrupt(*arguments):
    return CliRunner().invoke(main, ["corrupt", *map(str, arguments)])


def test_a_folder(photos):
    result = corrupt("image", "fog", "--severity", 3, "photos", "foggy")
    assert result.output == "3 made, 0 already there: foggy/manifest.jsonl\n"
    assert result.exit_code == 0
    again = corrupt("again", "foggy/manifest.jsonl", "photos", "again")
    assert again.output == "3 made, 0 already there: again/manifest.jsonl\n"
    assert (photos.parent / "again/2.jpg").read_bytes() == (
        photos.parent / "foggy/2.jpg"
    ).read_bytes()


def test_fog_over_a_map_as_for_flickr(photos):
    fog = ("image", "fog", "photos", "--preset", "mm_robustness")
    assert corrupt(*fog, "coco").exit_code == 0
    result = corrupt(*fog, "flickr", "--clouds", 512)
    assert result.output == "3 made, 0 already there: flickr/manifest.jsonl\n"
    coco, flickr = ((photos.parent / name / "0.jpg").read_bytes() for name in ("coco", "flickr"))
    assert coco != flickr
    again = corrupt("again", "flickr/manifest.jsonl", "photos", "again")
    assert again.exit_code == 0 and (photos.parent / "again/0.jpg").read_bytes() == flickr
    assert "takes no clouds" in corrupt("image", "snow", "photos", "x", "--clouds", 512).output


def test_a_file_deep_in_a_folder_comes_out_as_in_a_run_over_all(photos):
    corrupt("image", "gaussian_noise", ".", "whole")
    result = corrupt("image", "gaussian_noise", "photos/0.jpg", "one.jpg", "--base", ".")
    assert result.exit_code == 0
    one, whole = (photos.parent / name for name in ("one.jpg", "whole/photos/0.jpg"))
    assert one.read_bytes() == whole.read_bytes()


def test_a_damaged_file_is_counted_and_named(photos):
    (photos / "1.jpg").write_bytes(b"\xff\xd8 no picture")
    result = corrupt("image", "jpeg", "photos", "out", "--seed", 4, "--layout", "coco")
    assert result.exit_code == 1
    assert result.stderr.startswith('1.jpg: "photos/1.jpg" cannot be read as an image')
    assert result.stdout == "2 made, 0 already there, 1 failed: out/manifest.jsonl\n"
    assert (photos.parent / "out/COCO_IP_jpeg_compression_5/2.jpg").is_file()


def test_a_sheet(photos):
    result = corrupt("sheet", "photos/0.jpg")
    assert result.output == "0-sheet.jpg: 2684 x 2110 pixels\n"
    assert (photos.parent / "0-sheet.jpg").is_file()
    assert corrupt("sheet", "photos/0.jpg", "named.png", "--seed", 3).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["image", "fgo", "photos", "out"], 'no image corruption "fgo"; did you mean "fog"'),
        (["image", "fog", "--severity", 9, "photos", "out"], "severity is 9"),
        (["image", "fog", "nowhere", "out"], 'no file or folder "nowhere"'),
        (["image", "fog", "photos", "photos"], "input and as output"),
        (["image", "fog", "photos", "out", "--preset", "x"], 'no preset "x"'),
        (["image", "fog", "photos", "out", "--layout", "read"], "has no place for image"),
        (["image", "fog", "photos", "out", "--layout", "plane"], 'did you mean "plain"'),
        (["image", "fog", "photos", "out", "--base", "out"], "not lie below the base"),
        (["audio", "rain", "photos", "out"], "holds no audio files"),
        (
            ["text", "ocr", "a", "b", "--level", 2, "--severity", 5],
            "severity 5 and level 2: give one",
        ),
        (["text", "ocr", "a", "b", "--level", 9], 'no level "9"'),
        (["text", "passive", "a", "b", "--level", 2], '"passive" takes no level'),
        (["again", "photos", "photos", "out"], "cannot be read"),
        (["sheet", "nowhere.jpg"], 'there is no file "nowhere.jpg"'),
    ],
)
def test_errors_are_one_sentence(photos, arguments, sentence):
    result = corrupt(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ") and sentence in result.stderr
    assert result.stderr.count("\n") == 1 and not result.stdout


def test_captions_that_cannot_be_made(photos):
    (photos.parent / "a.txt").write_text("a dog\n")
    result = corrupt("text", "backtranslation", "a.txt", "b.txt")
    assert result.exit_code == 1 and "`corrupt --backend models`" in result.stderr
    assert result.stdout == "0 made, 0 already there, 1 failed\n"
    assert corrupt("text", "ocr", "a.txt", "b.txt", "--preset", "mm_robustness").exit_code == 0


def test_published_levels_of_captions(photos):
    (photos.parent / "a.txt").write_text("a brown dog sleeps on the sofa\n" * 9)
    for name, option, value in (("x", "--level", 7), ("y", "--severity", 5), ("z", "--level", 2)):
        assert corrupt("text", "ocr", option, value, "a.txt", f"{name}/a.txt").exit_code == 0
    x, y, z = ((photos.parent / name / "a.txt").read_text() for name in "xyz")
    assert x == y != z


def test_every_modality_lists_its_corruptions():
    assert "thunder" in corrupt("audio", "--help").output
    assert "speckle_noise" in corrupt("video", "--help").output
    told = corrupt("text", "--help").output
    assert "ocr" in told
    assert "half_typos" in told


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_run_leaves_only_whole_files_and_goes_on_later(photos, ending):
    for index in range(400):
        (photos / f"copy-{index}.jpg").write_bytes((photos / "0.jpg").read_bytes())
    arguments = ["corrupt", "image", "elastic", "photos", "out", "--jobs", "2"]
    run = start(*arguments)
    listed = photos.parent / "out" / "manifest.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (listed.exists() and listed.stat().st_size):
        time.sleep(0.01)  # until an item is in the manifest
    if ending == signal.SIGINT:
        os.killpg(run.pid, ending)  # as a terminal does
    else:
        run.kill()
    said = run.communicate(timeout=60)[1]
    assert "Traceback" not in said
    if ending == signal.SIGINT:
        assert (run.returncode, said.strip()) == (130, CONTINUE)
    entries = manifest.read(listed)
    assert 0 < len(entries) < 403
    for entry in entries:
        for name, digest in entry.files.items():
            assert sha256((listed.parent / name).read_bytes()).hexdigest() == digest
    assert _ends(run.pid)
    summary = corrupt("image", "elastic", "photos", "out", "--jobs", 1)
    assert summary.exit_code == 0
    assert len(list(listed.parent.glob("*.jpg"))) == 403
    assert f"{len(entries)} already there" in summary.output


def _ends(session):
    """Whether all processes of a session are gone within a few seconds."""
    for _ in range(500):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_says_how_many_captions_changed(photos):
    captions = "A woman is holding an umbrella.\nTwo dogs play in the snow.\n"
    (photos.parent / "a.txt").write_text(captions)
    result = corrupt("text", "passive", "a.txt", "passive.txt")
    assert result.exit_code == 0
    assert "1 of 2 captions changed" in result.output


def test_a_gif_is_not_passed_over_without_a_word(photos):
    (photos / "moving.gif").write_bytes(b"GIF89a")
    result = corrupt("image", "fog", "photos", "foggy")
    assert result.exit_code == 0
    assert result.stderr == "left out, a format that is not read: moving.gif\n"


def test_a_white_tile_has_a_border(photos):
    Image.new("RGB", (300, 200), "white").save(photos / "white.png")
    corrupt("sheet", "photos/white.png", "sheet.png")
    sheet = Image.open(photos.parent / "sheet.png").convert("RGB")
    assert sheet.getpixel((GAP + LABEL - 1, GAP + 50)) != (255, 255, 255)
