"""The architecture page: its rooms are the tree's, in import order, and its files are there."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import queryshift
from test_layers import ROOMS

HOME = Path(queryshift.__file__).parent
TRACER = Path(__file__).parents[1] / "tools" / "trace_batch.py"
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
TREE = re.search(r"```text\nsrc/queryshift/\n(.*?)```", PAGE, re.S)
ENTRY = re.compile(r"^( +)(\w+)(/|\.py) +\S", re.M)


def listed() -> list[str]:
    """The rooms of the page's tree, the laboratory's as "lab.datasets"."""
    assert TREE is not None
    entries = ENTRY.findall(TREE.group(1))
    return [f"lab.{name}" if len(indent) == 4 else name for indent, name, _ in entries]


def test_the_page_lists_the_rooms_in_import_order():
    assert [name for name in listed() if name != "lab"] == list(ROOMS)


def test_they_are_the_tree():
    top = {path.parent.name for path in HOME.glob("*/__init__.py")}
    lab = {f"lab.{path.parent.name}" for path in (HOME / "lab").glob("*/__init__.py")}
    files = {path.stem for path in HOME.glob("*.py")} - {"__init__"}
    assert set(listed()) == top | lab | files


def test_every_file_it_names_is_there():
    named = set(re.findall(r"\b((?:\w+/)+\w+\.py)\b", PAGE))
    missing = [
        path
        for path in named
        if not (HOME / path).exists() and not (HOME.parents[1] / path).exists()
    ]
    assert named and not missing


def test_a_batch_passes_through_the_files_of_the_picture():
    picture = re.search(r"```text\nSession.answer.*?```", PAGE, re.S)
    assert picture is not None
    named = set(re.findall(r"\b((?:\w+/)+\w+\.py)\b", picture.group()))
    ran = subprocess.run([sys.executable, TRACER], capture_output=True, text=True, check=True)
    passed = set(re.findall(r"^((?:\w+/)+\w+\.py) ", ran.stdout, re.M))
    assert 15 <= len(named) <= 25
    assert named <= passed


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if (HOME / room.replace(".", "/")).is_dir()]
)
def test_a_room_says_what_it_imports_and_where_to_start(room):
    about = import_module(f"queryshift.{room}").__doc__ or ""
    assert "Imports: " in about and "Start with " in about
    assert len(about.splitlines()) <= 10
    for file in re.findall(r"`(\w+\.py)`", about):
        assert (HOME / room.replace(".", "/") / file).exists(), file
