"""The README: its examples print what it shows, its commands run, its tables are whole."""

import json
import re
import resource
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from queryshift import METHODS
from queryshift.cli import main
from queryshift.lab.demo.demo_plan import SHOWN
from queryshift.lab.tangram import scenes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, re.S)
VECTORS, AROUND, LIBRARY, SHADOW = BLOCKS
COMMANDS = re.findall(r"^\$ (.*)$", README, re.M)
ROUNDING = 4  # of 64 queries, or of 100: how far another processor's roundings may lead


def near(printed: str, shown: str) -> bool:
    """The same words, and numbers that differ by roundings at most."""
    printed, shown = printed.strip(), shown.strip()
    same = re.sub(r"\d+", "N", printed) == re.sub(r"\d+", "N", shown)
    pairs = zip(re.findall(r"\d+", printed), re.findall(r"\d+", shown), strict=True)
    return same and all(abs(int(one) - int(other)) <= ROUNDING for one, other in pairs)


@pytest.fixture(scope="module")
def first():
    """What the first example leaves behind, and what it printed."""
    names = {}
    return names, run(LIBRARY[0], names)


def run(code, names):
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "README.md", "exec"), names)
    return printed.getvalue()


def test_the_library_example_prints_what_is_shown(first):
    code, shown = LIBRARY
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 11
    assert near(first[1], shown)


def test_shadow_mode_prints_what_is_shown(first):
    code, shown = SHADOW
    assert near(run(code, dict(first[0])), shown)


def test_three_lines_around_a_model_of_ones_own(first):
    bundled = AROUND[0].replace("openai/clip-vit-base-patch16", "tangram")
    names = first[0] | {"pictures": first[0]["noisy"][:4]}
    run(bundled, names)
    assert len(bundled.splitlines()) == 3 and len(names["best"]) == 4


def test_three_lines_with_vectors_only(first):
    names = dict(first[0])
    size = names["gallery"].dimension
    names["query_vectors"] = names["gallery"].vectors[:4, 0]
    run(VECTORS[0].replace("768", str(size)), names)
    assert len(VECTORS[0].splitlines()) == 3
    assert [row[0] for row in names["best"]] == names["gallery"].ids[:4]


@pytest.mark.parametrize("shown", ["14 9 of 64", "14 30 in 64"])
def test_another_output_would_be_noticed(shown):
    assert near("14 30 of 64\n", "12 33 of 64")
    assert not near("14 30 of 64\n", shown)


def test_its_first_two_commands_are_there():
    assert COMMANDS[:2] == ["make demo", "make test"]
    for command, ran in (("demo", "queryshift demo"), ("test", "pytest")):
        made = ["make", "-n", command]
        told = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert ran in told


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("queryshift")])
def test_its_other_commands_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for name, scene in zip(("photo.jpg", "photos/a.jpg"), scenes("test", 2), strict=True):
        Image.fromarray(scene.image()).resize((96, 96)).save(name)
    few = ["--queries", "8"] if " demo " in command else []
    ran = CliRunner().invoke(main, [*shlex.split(command)[1:], *few])
    assert ran.exit_code == 0, ran.output


def test_every_method_is_in_the_table():
    listed = re.findall(r"^\| \[`(\w+)`\]\((docs/.*?)\)", README, re.M)
    assert [name for name, _ in listed] == list(METHODS)


def test_everything_it_links_to_exists():
    targets = re.findall(r"\]\((?!http)(.*?)(?:#.*?)?\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def shown_rows() -> list[tuple[str, float, float]]:
    """Method, before and after of the README's table; frozen stays as it is."""
    rows = re.findall(r"│   (\w+) +│ +([\d.]+) % │ +(?:([\d.]+) %)? +│", README)
    return [(name, float(before), float(after or before)) for name, before, after in rows]


def test_the_table_has_both_streams():
    assert [name for name, *_ in shown_rows()] == [*SHOWN] * 2


@pytest.mark.slow
def test_the_demo_gives_the_table_that_is_shown(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("queryshift")), "demo", "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = json.loads(ran.stdout)["rows"]
    for row, shown in zip(rows, shown_rows(), strict=True):
        assert row["method"] == shown[0]
        found = (row["right_before"], row["right_after"])
        assert found == pytest.approx(shown[1:], abs=ROUNDING)
    assert after.ru_utime - before.ru_utime < 2 * 70  # about a minute of two cores
