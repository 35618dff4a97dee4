"""CONTRIBUTING.md: each of its examples, put where it says, passes the test it shows."""

import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = ("A method", "A corruption")
SECTIONS = dict(re.findall(r"^## (An? \w+)\n(.*?)(?=^## )", TEXT, re.M | re.S))


def module_name(section: str) -> str:
    """The module that the section's file would be."""
    return re.findall(r"`src/([\w/]+)\.py`", section)[0].replace("/", ".")


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_example_passes_its_test(kind, monkeypatch):
    code, test = re.findall(r"```python\n(.*?)```", SECTIONS[kind], re.S)
    name = module_name(SECTIONS[kind])
    module = types.ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, name, "exec"), vars(module))
    names: dict[str, object] = {}
    exec(compile(test, kind, "exec"), names)
    tests = [value for key, value in names.items() if key.startswith("test_") and callable(value)]
    assert tests
    for function in tests:
        function()


def test_each_fits_a_screen_or_two():
    for kind in EXAMPLES:
        section = SECTIONS[kind]
        code, _ = re.findall(r"```python\n(.*?)```", section, re.S)
        assert len(code.splitlines()) <= 55


def test_the_places_it_names_are_there():
    named = re.findall(r"`(src/[\w/]+\.py|tests/[\w/]+\.py|tools/\w+\.py)`", TEXT)
    new = ("nearer.py", "capitals.py")
    assert [path for path in named if not path.endswith(new)]
    for path in named:
        assert path.endswith(new) or (ROOT / path).exists(), path


def test_every_make_target_is_named():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert targets is not None
    for target in set(targets.group(1).split()) - {"weights"}:
        assert f"`make {target}`" in TEXT
