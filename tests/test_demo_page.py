"""The demo's page and that of query shifts: what they show is what comes out."""

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

from queryshift.cli import main
from queryshift.lab.demo.demo_plan import SHOWN
from queryshift.lab.tangram import scenes

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "demo.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.S)
LIBRARY, SHADOW = BLOCKS
SHIFTS = (DOCS / "corruptions.md").read_text(encoding="utf-8").split("\n## ")[0]
COMMANDS = re.findall(r"^\$ (queryshift .*)$", SHIFTS, re.M)
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
        exec(compile(code, "demo.md", "exec"), names)
    return printed.getvalue()


def test_the_library_example_prints_what_is_shown(first):
    code, shown = LIBRARY
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 11
    assert near(first[1], shown)


def test_shadow_mode_prints_what_is_shown(first):
    code, shown = SHADOW
    assert near(run(code, dict(first[0])), shown)


@pytest.mark.parametrize("shown", ["14 9 of 64", "14 30 in 64"])
def test_another_output_would_be_noticed(shown):
    assert near("14 30 of 64\n", "12 33 of 64")
    assert not near("14 30 of 64\n", shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_query_shifts_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for name, scene in zip(("photo.jpg", "photos/a.jpg"), scenes("test", 2), strict=True):
        Image.fromarray(scene.image()).resize((96, 96)).save(name)
    few = ["--queries", "8"] if " demo " in command else []
    ran = CliRunner().invoke(main, [*shlex.split(command)[1:], *few])
    assert ran.exit_code == 0, ran.output


def shown_rows() -> list[tuple[str, float, float]]:
    """Method, before and after of the page's table; frozen stays as it is."""
    rows = re.findall(r"│   (\w+) +│ +([\d.]+) % │ +(?:([\d.]+) %)? +│", PAGE)
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
