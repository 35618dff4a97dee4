"""The Makefile: its set-up mends itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
echo "$@" >> asked
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$@" >> asked' > .venv/bin/python
chmod +x .venv/bin/python
"""


def set_up(folder, stamp=".ready"):
    """What is asked of pythons while the environment is made in a folder, without installing."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        if not (folder / name).exists():
            shutil.copyfile(ROOT / name, folder / name)
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    (folder / "asked").unlink(missing_ok=True)
    made = ["make", "PYTHON=./python", f".venv/{stamp}"]
    said = subprocess.run(made, cwd=folder, check=True, capture_output=True, text=True).stdout
    return (folder / "asked").read_text().splitlines(), said


def test_the_demo_installs_no_developers_tools(tmp_path):
    (made, installed), _ = set_up(tmp_path, ".ready-demo")
    assert made == "-m venv .venv"
    assert installed.startswith("-m pip install") and installed.endswith("-e .[lab]")


def test_the_tests_add_them_to_the_same_environment(tmp_path):
    set_up(tmp_path, ".ready-demo")
    (installed,), _ = set_up(tmp_path)
    assert installed.startswith("-m pip install") and installed.endswith("-e .[dev]")


def test_each_step_says_what_it_does_and_how_long_it_took(tmp_path):
    _, said = set_up(tmp_path)
    begun = re.findall(r"^(.*) \.\.\.$", said, re.M)
    assert len(begun) == 3
    assert re.findall(r"^(.*): \d+ s$", said, re.M) == begun


def test_an_environment_without_pip_left_by_a_failed_attempt_is_made_again(tmp_path):
    half_made = tmp_path / ".venv" / "bin" / "python"
    half_made.parent.mkdir(parents=True)
    half_made.write_text("#!/bin/sh\necho No module named pip; exit 1\n")
    half_made.chmod(0o755)
    assert set_up(tmp_path)[0][0] == "-m venv .venv"


def test_one_that_works_is_kept(tmp_path):
    set_up(tmp_path)
    (tmp_path / ".venv" / ".ready-demo").unlink()
    (checked, installed, added), _ = set_up(tmp_path)
    assert checked == "-m pip --version" and "[lab]" in installed and "[dev]" in added


def test_a_failed_install_is_no_ready_environment(tmp_path):
    set_up(tmp_path, ".ready-demo")
    (tmp_path / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        set_up(tmp_path)
    assert not (tmp_path / ".venv" / ".ready").exists()
