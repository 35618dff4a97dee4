"""The built wheel installs and runs outside the clone."""

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import queryshift

pytestmark = pytest.mark.slow

LARGEST = 20 * 10**6  # bytes
ROOT = Path(queryshift.__file__).parents[2]
PROGRAM = """
from pathlib import Path
import queryshift as qs
home = Path(qs.__file__).resolve()
assert "installed" in home.parts, home
model = qs.load("tangram")
captions = ["a red square", "a blue circle", "two green stars", "an arrow"]
gallery = qs.Gallery.build(model["text"], captions, ids=captions)
session = qs.Session(model["text"], gallery, qs.REST())
found = session.answer(captions)
assert [row[0] for row in found.top(1).ids] == captions, found.top(1).ids
session.save("state")
qs.Session.load("state", model["text"], gallery)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    ran = subprocess.run(build, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (found,) = folder.glob("queryshift-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere") / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    subprocess.run([*pip, wheel], check=True)
    return folder


def test_it_is_small_enough_for_pypi(wheel):
    assert wheel.stat().st_size <= LARGEST


def test_its_page_on_pypi_renders(wheel):
    check = [sys.executable, "-m", "twine", "check", "--strict", wheel]
    ran = subprocess.run(check, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (name,) = (one for one in zipfile.ZipFile(wheel).namelist() if one.endswith("/METADATA"))
    told = email.message_from_bytes(zipfile.ZipFile(wheel).read(name))
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_payload().startswith("# queryshift")
    assert told.get_all("Project-URL") and told["License-Expression"] == "Apache-2.0"
    assert "Development Status :: 4 - Beta" in told.get_all("Classifier")


def test_weights_and_tables_are_inside(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    kept = [path for path in (source / "queryshift").rglob("*") if path.is_file()]
    expected = {str(path.relative_to(source)) for path in kept if "__pycache__" not in path.parts}
    assert expected <= inside


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-c", PROGRAM], ["bin/queryshift", "--version"]],
    ids=["library", "command line"],
)
def test_it_runs_outside_the_clone(installed, command):
    ran = subprocess.run(
        command,
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
