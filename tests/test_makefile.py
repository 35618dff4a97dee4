"""The Makefile: its set-up mends itself."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
echo "$@" >> asked
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$@" >> asked' > .venv/bin/python
chmod +x .venv/bin/python
"""


def set_up(folder):
    """What is asked of pythons while the environment is made in a folder, without installing."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(ROOT / name, folder / name)
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    subprocess.run(["make", "PYTHON=./python", ".venv/.ready"], cwd=folder, check=True)
    return (folder / "asked").read_text().splitlines()


def test_the_environment_is_made_and_everything_installed(tmp_path):
    made, installed = set_up(tmp_path)
    assert made == "-m venv .venv"
    assert installed.startswith("-m pip install") and installed.endswith("-e .[dev]")


def test_an_environment_without_pip_left_by_a_failed_attempt_is_made_again(tmp_path):
    half_made = tmp_path / ".venv" / "bin" / "python"
    half_made.parent.mkdir(parents=True)
    half_made.write_text("#!/bin/sh\necho No module named pip; exit 1\n")
    half_made.chmod(0o755)
    assert set_up(tmp_path)[0] == "-m venv .venv"


def test_one_that_works_is_kept(tmp_path):
    set_up(tmp_path)
    (tmp_path / "asked").unlink()
    (tmp_path / ".venv" / ".ready").unlink()
    checked, installed = set_up(tmp_path)
    assert checked == "-m pip --version" and "pip install" in installed
