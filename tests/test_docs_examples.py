"""The examples on the docs' pages run as they stand, and print what the pages say."""

import re
import shlex
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from PIL import Image

import queryshift as qs
from queryshift.cli import main
from queryshift.lab import tangram
from small_datasets import WRITERS

DOCS = Path(__file__).parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    return [
        re.sub(r"^  ", "", block, flags=re.M) if block.startswith("  ") else block
        for block in re.findall(r"```python\n(.*?)```", page(name), re.S)
    ]


def run(code: str, names: dict) -> dict:
    exec(compile(code, "docs", "exec"), names)
    return names


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with photographs, captions and recordings; it is the home folder too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in ("photos/beach", "photographs", "recordings"):
        (tmp_path / folder).mkdir(parents=True)
    shown = tangram.scenes("test", 16)
    for number, scene in enumerate(shown):
        folder = "photos/beach" if number == 3 else "photos"
        Image.fromarray(scene.image()).save(f"{folder}/{number}.jpg")
    Image.fromarray(shown[0].image()).resize((300, 200)).save("photo.jpg")
    Image.fromarray(shown[1].image()).resize((300, 200)).save("photographs/ice.jpg")
    soundfile.write("recordings/rain.wav", np.sin(np.arange(999)), 16_000)
    Path("captions.txt").write_text("".join(f"{tangram.captions(one)[0]}\n" for one in shown))
    return tmp_path


def test_image_corruptions(here):
    code = blocks("corruptions.md")[0]
    rng = np.random.default_rng(0)
    photo = Image.open("photo.jpg")
    names = run(code, {"photo": photo, "rng": rng})
    for name in ("published", "frost", "diverse"):
        assert names[name](photo, 3, rng).size == photo.size
    assert names["mixed"](np.stack([np.asarray(photo)] * 10), 3, rng).shape == (10, 200, 300, 3)


def test_text_corruptions(here):
    code = blocks("corruptions.md")[1]
    names = {"caption": "A dog on a sofa.", "rng": np.random.default_rng(0)}
    names = run(code, names | {"encode": lambda text: [1.0]})
    assert names["text"].as_published(names["text"].ocr)("A dog.", 5, np.random.default_rng(0))


def test_audio_corruptions(here):
    code = blocks("corruptions.md")[2]
    names = run(code, {})
    assert names["stormy"].rate == 44_100
    assert names["real"](names["clip"], 3, np.random.default_rng(0)).shape == (16_000,)


def test_the_corrupt_command(here):
    consoles = re.findall(r"```console\n(.*?)```", page("corruptions.md"), re.S)[1:]
    shown = [re.findall(r"^\$ queryshift (.*)\n((?:[^$].*\n)*)", one, re.M) for one in consoles]
    assert shown and all(shown)
    for command, said in chain.from_iterable(shown):
        ran = CliRunner().invoke(main, shlex.split(command, comments=True))
        assert ran.exit_code == 0, ran.output
        assert said in ("", ran.output), command


def test_levels_on_the_command_line(here):
    (command,) = re.findall(r"`queryshift (corrupt text ocr --level .*?)`", page("corruptions.md"))
    assert CliRunner().invoke(main, shlex.split(command)).exit_code == 0


def test_the_matching_head():
    code = blocks("models.md")[2].replace("blip-base-coco", "tangram").replace("256", "8")
    shown = tangram.scenes("test", 16)
    names = run(code, {"qs": qs, "captions": [tangram.captions(one)[0] for one in shown]})
    answers = names["session"].answer([one.image() for one in shown]).top(1).ids
    assert sum(found == [row] for row, found in enumerate(answers)) > 12


def test_datasets(here):
    whole, submissions = blocks("benchmarks.md")
    for name in ("coco", "nocaps", "cirr"):
        WRITERS[name](here / "data" / name)
    names = run(whole, {"root": here / "data" / "nocaps"})
    assert len(names["dataset"]) and len(names["skipped"]) == 1  # a caption without a picture
    names |= {"root": here / "data" / "cirr"}
    names = run(submissions.replace("sprc_cirr.pt", "tangram-edits"), names)
    assert [len(set(ranking)) for ranking in names["rankings"]] == [6, 6]  # of seven, one asks
    assert len(list((here / "submission").iterdir())) == 2
    commands = re.findall(r"^\$ queryshift (data check .*)$", page("benchmarks.md"), re.M)
    assert commands
    for command in commands:
        ran = CliRunner().invoke(main, shlex.split(command.replace("~", str(here))))
        assert "published" in ran.output and ran.exit_code == 1  # they are smaller than published


def test_the_papers_numbers():
    (code,) = blocks("reports.md")
    shown = re.findall(r"^(.*?) +# ([\d.]+)$", code, re.M)
    assert shown
    for expression, value in shown:
        assert eval(expression, run("from queryshift.lab.evaluation import paper", {})) == float(
            value
        )


def test_tangram(here):
    (code,) = blocks("tangram.md")
    names = run(code.replace("2000", "20"), {})
    assert names["scenes"][1].image().shape == (64, 64, 3)
