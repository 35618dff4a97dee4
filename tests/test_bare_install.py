"""The core installs and answers with its own dependencies alone."""

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import queryshift
from core_dependencies import PROJECT, ROOT, refused, refusing

HOME = Path(queryshift.__file__).parent
ROOMS = ("support", "media", "encoders", "galleries", "retrieval", "methods", "sessions")
MODULES = {
    path.relative_to(HOME).with_suffix("").as_posix().replace("/", ".")
    for room in ROOMS
    for path in (HOME / room).rglob("*.py")
}
PROGRAM = """
import torch
import queryshift as qs

class Rows(qs.Encoder):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
    def prepare(self, items):
        return torch.stack(items)
    def forward(self, prepared):
        return torch.nn.functional.normalize(self.norm(prepared), dim=1)

torch.manual_seed(0)
encoder, items = Rows(), list(torch.randn(32, 8))
gallery = qs.Gallery.from_vectors(range(32), encoder.encode(items))
session = qs.Session(encoder, gallery, qs.REST())
ids = session.answer(items[:16]).top(1).ids
assert ids == [[row] for row in range(16)], ids
session.save("state")
again = qs.Session.load("state", encoder, gallery)
assert again.answer(items[16:]).top(3).scores.shape == (16, 3)
"""


VECTORS = """
import numpy
numpy.save("documents.npy", numpy.random.default_rng(0).normal(size=(50, 384)))
numpy.save("queries.npy", numpy.load("documents.npy")[:8])
"""


def first_block() -> str:
    """The first Python block of the README, as it stands."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]


def ran(python: str | Path, code: str, folder: Path) -> None:
    command = [str(python), "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_core_answers_without_what_extras_bring(tmp_path):
    ran(sys.executable, refusing() + PROGRAM, tmp_path)


def test_no_module_of_the_product_needs_more_when_it_is_imported(tmp_path):
    imports = "".join(f"import queryshift.{module}\n" for module in sorted(MODULES))
    ran(sys.executable, refusing() + imports, tmp_path)


def test_loading_a_model_needs_the_extra_hf_and_no_laboratory(tmp_path):
    models = sorted(path.stem for path in (HOME / "models").glob("*.py"))
    imports = "".join(f"import queryshift.models.{name}\n" for name in models)
    ran(sys.executable, refusing("hf") + imports, tmp_path)


def test_the_command_line_says_its_names_without_them(tmp_path):
    program = "from queryshift.cli import main\nmain(['list', 'methods'], standalone_mode=False)\n"
    ran(sys.executable, refusing() + program, tmp_path)


def test_the_check_would_notice(tmp_path):
    assert {"cv2", "PIL", "soundfile", "tokenizers"} <= refused()
    assert not {"torch", "numpy", "rich"} & refused()
    with pytest.raises(AssertionError, match="No module named 'cv2'"):
        ran(sys.executable, refusing() + "import cv2\n", tmp_path)


def test_every_tested_python_is_named():
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"]}
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


@pytest.mark.slow
def test_a_wheel_answers_in_an_environment_of_its_own(tmp_path, monkeypatch):
    venv.create(tmp_path / "bare", with_pip=True)
    python = tmp_path / "bare" / "bin" / "python"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("queryshift-*.whl")
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "-c",
        ROOT / "constraints.txt",
    ]
    subprocess.run([*pip, wheel], check=True)
    ran(python, PROGRAM, tmp_path)
    ran(python, f"{VECTORS}{first_block()}assert best[3][0] == 3, best[3]\n", tmp_path)
    with pytest.raises(AssertionError, match="No module named 'cv2'"):
        ran(python, "import cv2", tmp_path)
    subprocess.run([*pip, f"{wheel}[lab]"], check=True)
    demo = [python.with_name("queryshift"), "demo", "--quick", "--json"]
    shown = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    found = {row["method"]: row for row in json.loads(shown)["rows"] if row["stream"] == "shifted"}
    assert found["default"]["right_after"] > 2 * found["frozen"]["right_after"]
    assert (tmp_path / "queryshift-demo.html").is_file()
