"""The tool that plants faults: what it changes, that the tree stays as it is, how it goes on."""

import ast
import json
from pathlib import Path
from shutil import rmtree

import pytest
from tools.fault_tests import FaultTests, digest
from tools.mutate import (
    ROOT,
    Fault,
    Trial,
    drawn,
    faults_of,
    nearest_tests,
    planted,
    read_journal,
    record,
    run,
    summary,
)

from tools import forked_pytest

SOURCE = """def total(rows, most):
    done = 0
    for one in rows:
        if one > most:
            done += one
    return done


def spare(rows):
    return max(rows) or 1
"""
TESTS = """from queryshift.retrieval.sums import total

def test_it():
    assert total([1, 2, 4], 2) == 4
"""

WAITING = """import os, time
from pathlib import Path

def test_it():
    assert os.environ["PYTHONPATH"].split(os.pathsep)[-1] == "elsewhere"
    Path("{name}.begun").touch()
    until = time.monotonic() + 5
    while not Path("{other}.begun").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a < b", ["x = (a >= b)"]),
        ("x = a == b != c", ["x = (a != b != c)", "x = (a == b == c)"]),
        ("x = a is not b", ["x = (a is b)"]),
        ("x = a in b", ["x = (a not in b)"]),
        ("x = a and b", ["x = (a or b)"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x = a * b", ["x = (a / b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = True", ["x = False"]),
        ("x = a[3]", ["x = a[4]"]),
        ("x = min(a, b)", ["x = (max(a, b))"]),
        ("x = a.argmax()", ["x = (a.argmin())"]),
        ("x += a", ["pass"]),
        ("é = 'é', a < b  # é", ["é = 'é', (a >= b)  # é"]),
        ("x = (\n    a < # why\n    b\n)", ["x = (\n    (a >= b)\n)"]),
    ],
)
def test_each_kind_of_fault(before, after):
    found = [planted(fault, before) for fault in faults_of("one.py", before)]
    assert found == after
    for text in found:
        ast.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '"""Is 1 < 2 and not 3?"""',
        'raise ValueError(f"{a + 1} of {b or 2}")',
        'raise ValueError("none" if a < 1 else "one")',
        "x = f'{a + 1}'",
        "x = a + 'text'",
        "x = folder / 'file'",
        "__slots__ = ('a',) * 2",
        "x: tuple[int, Literal[1]]",
        "def f(x: Literal[1]) -> Literal[2]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "logger.warning('so many: %s', a + 1)",
        "def __repr__(self): return a + b",
        "if TYPE_CHECKING:\n    x = 1",
        "x = int | None",
        "x = zip(a, b, strict=True)",
    ],
)
def test_what_nobody_runs_or_only_words_are_made_of_is_left_alone(text):
    assert faults_of("one.py", text) == []


def test_a_seed_draws_the_same_faults_and_each_can_be_planted():
    first, again, other = (drawn(ROOT, seed, 40) for seed in (1, 1, 2))
    assert first == again and len(set(first)) == 40 and set(first) != set(other)
    for fault in first:
        text = (ROOT / "src" / "queryshift" / fault.path).read_text(encoding="utf-8")
        changed = planted(fault, text)
        assert ast.unparse(ast.parse(changed)) != ast.unparse(ast.parse(text))
    assert {fault.path.split("/")[0] for fault in drawn(ROOT, 1, 9, ("methods",))} == {"methods"}


def test_the_nearest_tests_come_first():
    assert nearest_tests(ROOT, "sessions/batched.py")[0] == ["tests/sessions/test_batched.py"]
    assert (
        "tests/retrieval/test_hub_correction.py"
        in nearest_tests(ROOT, "retrieval/hubness/query_bank.py")[0]
    )
    assert nearest_tests(ROOT, "galleries/engine.py")[-1] == ["tests/galleries", "tests/engines"]
    assert nearest_tests(ROOT, "lab/own_traffic/evaluation_page.py")[-1] == [
        "tests/lab/own_traffic"
    ]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(forked_pytest, "LIBRARIES", ("pytest",))
    home, tests = tmp_path / "src" / "queryshift" / "retrieval", tmp_path / "tests" / "retrieval"
    for folder in (home, tests):
        folder.mkdir(parents=True)
    for path in (home.parent / "__init__.py", home / "__init__.py"):
        path.write_text("")
    (home / "sums.py").write_text(SOURCE)
    (tests / "test_sums.py").write_text(TESTS)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("lines", [True, False])
def test_faults_are_told_apart_and_the_tree_is_left_as_it_was(project, lines):
    before, journal = content(project), project / "kept" / "1.jsonl"
    faults = drawn(project, 1, 100)
    assert len(faults) == 6
    outcomes = run(project, faults, journal, 60, lines=lines)
    survived = {str(one.fault) for one in outcomes if one.result == "survived"}
    assert survived == {
        "retrieval/sums.py:10: max(rows) -> (min(rows))",
        "retrieval/sums.py:10: max(rows) or 1 -> (max(rows) and 1)",
        "retrieval/sums.py:10: 1 -> 2",
    }
    noticed = [one for one in outcomes if one.result == "noticed"]
    assert {one.by for one in noticed} == {"tests/retrieval/test_sums.py::test_it"}
    assert "6 of 6 faults tried: 3 " in summary(outcomes, 6)
    assert [path for path in survived if path not in summary(outcomes, 6)] == []
    rmtree(journal.parent)
    assert content(project) == before


@pytest.mark.parametrize("copies", [1, 3])
def test_files_are_recorded_at_once_and_each_once(project, copies, capfd, monkeypatch):
    """Two wait for each other, so that both pass only where they run at the same time."""
    folder, names = project / "tests" / "retrieval", ["sums", "one", "two"]
    for name, other in (("one", "two"), ("two", "one")):
        (folder / f"test_{name}.py").write_text(WAITING.format(name=name, other=other))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    tests = FaultTests(project, project / "lines")
    record(project, project / "kept", tests, 60, copies)
    assert sorted(line.split()[-1] for line in capfd.readouterr().out.splitlines()) == sorted(
        f"tests/retrieval/test_{name}.py" for name in names
    )
    found = {
        name: json.loads((project / "lines" / f"tests.retrieval.test_{name}.json").read_text())
        for name in names
    }
    passed = {name for name in names if found[name]["tests"]}
    assert passed == ({"sums", "one", "two"} if copies == 3 else {"sums", "two"})
    record(project, project / "kept", tests, 60, copies)
    assert not capfd.readouterr().out


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(project, monkeypatch):
    journal, faults, tried = project / "1.jsonl", drawn(project, 1, 4), []

    def outcome(trial, fault):
        tried.append(fault)
        if len(tried) == 3:
            raise KeyboardInterrupt
        return real(trial, fault)

    real = Trial.outcome
    monkeypatch.setattr(Trial, "outcome", outcome)
    assert [one.fault for one in run(project, faults, journal, 60)] == faults[:2]
    assert "2 of 4 faults tried" in summary(list(read_journal(journal).values()), 4)
    with journal.open("a") as file:
        file.write(journal.read_text().splitlines()[0][:-9])  # as a kill leaves it
    assert [one.fault for one in run(project, faults, journal, 60)] == faults
    assert tried == [*faults[:3], *faults[2:]]
    assert len([json.loads(line) for line in journal.read_text().splitlines()]) == 4
    run(project, faults, journal, 60)
    assert len(tried) == 5


@pytest.mark.slow
def test_a_test_that_fails_anyway_gives_no_verdict(project):
    tests = project / "tests" / "retrieval" / "test_sums.py"
    (fault,) = (one for one in drawn(project, 1, 100) if one.after == "pass")
    tests.write_text(TESTS + "\ndef test_broken():\n    assert False\n")
    assert run(project, [fault], project / "a.jsonl", 60)[0].result == "noticed"
    tests.write_text("def test_broken():\n    assert False\n")
    assert run(project, [fault], project / "b.jsonl", 60)[0].result == "no verdict"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "seconds", "code"),
    [("while True: pass", 2, None), ("time.sleep(60)", 9, None), ("time.sleep(6)", 5, 0)],
)
def test_the_time_of_tests_is_cpu_time(project, monkeypatch, text, seconds, code):
    """Those that only wait for long are given up, and those that wait for others are not."""
    monkeypatch.setattr(forked_pytest, "IDLE", 4.0)
    file = "tests/retrieval/test_sums.py"
    (project / file).write_text(f"import time\ndef test_long():\n    {text}\n")
    forked = forked_pytest.ForkedPytest(project, project / "src", project / "compiled")
    assert forked.run([file], seconds)[0] == code
    assert 0 < forked.spent < 5


def test_a_fault_of_another_version_is_refused():
    with pytest.raises(ValueError, match="any more"):
        planted(Fault("one.py", 1, 4, "a < b", "(a >= b)"), "x = a > b")


LINES = """MOST = 3


def few(rows, most=MOST):
    return rows[:most]


class Sums:
    scale = 2

    def total(self, rows):
        if len(rows) > 5:
            return (
                sum(rows) *
                self.scale
            )
        return self.none()

    def none(self):
        return 0
"""
TESTS_OF_LINES = """import time
from threading import Thread
import pytest
from queryshift.retrieval.lines import Sums, few

@pytest.fixture(scope="module")
def long():
    return Sums().total(range(6))

def test_few():
    assert few([1, 2]) == [1, 2]

def test_in_a_thread():
    thread = Thread(target=Sums().total, args=([1],))
    thread.start()
    thread.join()

def test_first(long):
    time.sleep(0.3)

def test_second(long):
    pass

def test_broken(long):
    assert False
"""


def test_the_tests_of_a_line_are_those_that_run_it_quickest_first(project):
    file, folder = "tests/retrieval/test_lines.py", project / "src" / "queryshift" / "retrieval"
    (folder / "lines.py").write_text(LINES)
    (project / file).write_text(TESTS_OF_LINES)
    tests = FaultTests(project, project / "lines")
    record(project, project / "kept", tests, 60)
    assert FaultTests(project, project / "lines").is_recorded(file)
    found = {
        line: [
            name.split("::test_")[1] for name in tests.of("retrieval/lines.py", line, [file], [])
        ]
        for line in range(1, 21)
    }
    assert found[5] == ["few"] and found[4] == ["few"] and set(found[1]) >= {"few"}
    assert found[13] == found[14] == found[15] == ["second", "first"]
    assert set(found[12]) == {"in_a_thread", "first", "second"}
    assert found[17] == found[20] == ["in_a_thread"]
    assert set(found[9]) == {"few", "in_a_thread", "first", "second"}
    assert tests.of("retrieval/sums.py", 5, [file], []) == {}


def test_of_a_source_that_was_changed_all_lines_count_and_changed_tests_are_recorded_anew(project):
    file, source = "tests/retrieval/test_sums.py", project / "src/queryshift/retrieval/sums.py"
    record(project, project / "kept", FaultTests(project, project / "lines"), 60)
    assert FaultTests(project, project / "lines").of("retrieval/sums.py", 10, [file], []) == {}
    source.write_text("# changed\n" + SOURCE)
    digest.cache_clear()
    changed = FaultTests(project, project / "lines")
    assert changed.is_recorded(file)
    assert list(changed.of("retrieval/sums.py", 11, [file], [])) == [f"{file}::test_it"]
    (project / file).write_text(TESTS + "\n")
    digest.cache_clear()
    assert not changed.is_recorded(file)
