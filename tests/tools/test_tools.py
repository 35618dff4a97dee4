"""The tools that compare two versions of the package and trace one batch through it."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from tools.compare_streams import apart, difference
from tools.trace_batch import Trace

from queryshift.sessions.policy import CONSTANTS

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*ROOT.glob("bench/*.py"), *ROOT.glob("tools/*.py")])


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def record(ids=(1, 2), score=0.5, **params: float):
    tensors = {name: torch.tensor([value]) for name, value in params.items()}
    return {
        "answers": [[list(ids)]],
        "scores": [{"scores": torch.tensor([score])}],
        "params": [tensors],
    }


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (record(weight=1.0), True),
        (record(weight=1.0 + 1e-6), False),
        (record(weight=1.0, more=0.0), False),
        (record(ids=(2, 1), weight=1.0), False),
        (record(score=0.25, weight=1.0), False),
        ({"error": "ValueError: no"}, False),
        (None, False),
    ],
)
def test_streams_are_the_same_when_ids_scores_and_parameters_are(other, same):
    assert difference(record(weight=1.0), other).within(0.0) is same
    assert difference(other, record(weight=1.0)).within(0.0) is same


def test_a_tolerance_is_for_numbers_and_not_for_answers():
    assert difference(record(weight=1.0), record(weight=1.001)).within(0.01)
    assert not difference(record(weight=1.0), record(ids=(2, 1), weight=1.0)).within(0.01)


def test_nan_is_equal_to_nan_and_to_nothing_else():
    nan, one = torch.tensor([torch.nan]), torch.tensor([1.0])
    assert apart(nan, nan) == 0
    assert apart(nan, one) == torch.inf
    assert apart(one, one.double()) == torch.inf


@pytest.mark.slow
def test_a_version_has_the_same_streams_as_itself():
    ran = tool("compare_streams.py", "HEAD", str(ROOT), "--streams", "image/tent*")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "image/tent/matcher" in ran.stdout
    assert "image/rest" not in ran.stdout
    assert ", 0 different" in ran.stdout


@pytest.mark.slow
def test_what_is_no_version_is_refused():
    ran = tool("compare_streams.py", "no-such-revision", "HEAD")
    assert ran.returncode == 1
    assert '"no-such-revision" is no folder with a src' in ran.stderr


def test_a_trace_counts_files_functions_and_switches(tmp_path):
    (tmp_path / "one.py").write_text("def outer(inner):\n    inner()\n    inner()\n    own()\n")
    (tmp_path / "two.py").write_text("def inner():\n    pass\n")
    spaces: list[dict[str, object]] = [{}, {}]
    for name, space in zip(("one.py", "two.py"), spaces, strict=True):
        exec(compile((tmp_path / name).read_text(), str(tmp_path / name), "exec"), space)
    spaces[0]["own"] = spaces[1]["inner"]
    trace = Trace(f"{tmp_path}/").of(lambda: spaces[0]["outer"](spaces[1]["inner"]))  # type: ignore[operator]
    assert trace.files == {"one.py": 1, "two.py": 3}
    assert len(trace.functions) == 2
    assert trace.switches.total() == 1
    assert trace.crossings.total() == 4  # the caller's own, and three to the other file


@pytest.mark.slow
def test_the_tracer_prints_what_a_batch_passes_through():
    ran = tool("trace_batch.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("answer: ")
    assert "methods/infomax.py" in ran.stdout and "sessions/policy.py" in ran.stdout
    assert f"policy: 7 rules, {len(CONSTANTS)} constants" in ran.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_script_imports_of_the_package_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("queryshift"):
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), name
