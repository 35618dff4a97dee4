"""The public names as type checkers and editors see them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import queryshift

HOME = Path(queryshift.__file__).parent
SCRIPT = """\
import numpy as np

import queryshift as qs

vectors = np.random.default_rng(0).normal(size=(100, 8))
gallery = qs.Gallery.from_vectors(None, vectors)
session = qs.Session(qs.Vectors(8), gallery, hubs=qs.Hubs(), gather=16)
best: list[list[int | str]] = session.answer(vectors[:4]).top(3).ids
array = qs.Session(qs.Vectors(8), vectors, qs.Frozen(), {mistake})
array.describe()
"""
MISTAKES = {
    "none": ("", None),
    "a name that is none": ("learning_rate=0.1", "learning_rate"),
    "text for a number": ('steps="three"', "steps"),
    "a mode that is none": ('mode="shade"', "mode"),
}
MYPY = ["mypy", "--strict", "--no-error-summary", "--python-executable"]
CHECKERS = {"mypy": [*MYPY, sys.executable], "pyright": ["pyright", "--pythonpath", sys.executable]}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_finds_the_one_mistake(checker, tmp_path):
    command, *options = CHECKERS[checker]
    beside = Path(sys.executable).with_name(command)
    found = str(beside) if beside.exists() else shutil.which(command)
    if found is None:
        pytest.skip("pyright is not installed: pip install pyright (it needs node)")
    script = tmp_path / "user.py"
    env = {**os.environ, "PYTHONPATH": str(HOME.parent), "MYPYPATH": str(HOME.parent)}
    for mistake, named in MISTAKES.values():
        script.write_text(SCRIPT.format(mistake=mistake))
        ran = subprocess.run(
            [found, *options, "user.py"], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        told = re.findall(r"user\.py:(\d+).*error: (.*)", ran.stdout)
        lines = [int(line) for line, _ in told]
        assert lines == ([] if named is None else [9]), ran.stdout + ran.stderr
        assert named is None or named in told[0][1] + ran.stdout


def test_every_public_name_is_imported_for_checkers_from_its_home():
    text = (HOME / "__init__.py").read_text()
    seen = re.findall(r"^    from \.(\S+) import (\w+) as (\w+)$", text, re.M)
    assert {(name, home) for home, name, _ in seen} == set(queryshift._HOMES.items())
    assert all(name == again for _, name, again in seen)


def test_an_old_name_works_with_a_warning(monkeypatch):
    monkeypatch.setitem(queryshift._RENAMED, "Stream", "Session")
    with pytest.warns(DeprecationWarning, match=r"Stream is now queryshift\.Session; .* 0\.3"):
        assert queryshift.Stream is queryshift.Session
