"""`make mutate`: plant small faults one at a time, and see which of them the nearest tests notice.

Each fault changes one place of a copy of `src`, which comes first on the path of the tests; the
tree itself is never changed. The tests of a fault are those that run its line, quickest first:
which lines each test runs is recorded before, in .mutate/lines. A fault is noticed if a test fails
that passes without it. Outcomes are kept in .mutate/SEED.jsonl: the same command goes on after
Ctrl-C or a kill.
"""

import argparse
import ast
import copy
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from queue import Queue
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

from .fault_tests import FaultTests
from .forked_pytest import ForkedPytest
from .record_lines import function_of

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("retrieval", "sessions", "methods", "galleries", "indexing", "serving"),
    "lab/own_traffic",
)
MORE_FILES = (  # tests of what uses the rooms
    *("engines", "test_bad_input.py", "streams", "models/test_matching_sessions.py"),
    "lab/evaluation/test_benchmark_methods.py",
)
STAGES = (2.0, 20.0)  # seconds of tests that are run at once, before all of them
MORE_TESTS = {"galleries": ("tests/engines",)}  # of a room, beside those in its own folder
MOST_SURVIVORS = 0.05
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
}
ENDS = {"min": "max", "amin": "amax", "argmin": "argmax", "minimum": "maximum"}
ENDS |= {other: one for one, other in ENDS.items()}
Given = TypeVar("Given")
Made = TypeVar("Made")
LOGGING = {"debug", "info", "warning", "error", "exception", "warn"}


@dataclass(frozen=True)
class Fault:
    """One change of one file."""

    path: str  # within src/queryshift
    line: int
    column: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a fault."""

    fault: Fault
    result: str  # "noticed", "survived", "out of time" or "no verdict"
    by: str  # the test that failed
    seconds: float  # of CPU time, with a second look at that test


def faults_of(path: str, text: str) -> list[Fault]:
    """All faults that can be planted in a file."""
    return [
        Fault(path, node.lineno, node.col_offset, ast.unparse(node), after)
        for node in _looked_at(ast.parse(text))
        for after in _changed(node)
    ]


def planted(fault: Fault, text: str) -> str:
    """The text of a file with a fault in it."""
    content = text.encode()
    lines = [0, *accumulate(map(len, content.splitlines(keepends=True)))]  # where each begins
    for node in _looked_at(ast.parse(text)):
        at = (node.lineno, node.col_offset) == (fault.line, fault.column)
        if at and ast.unparse(node) == fault.before and fault.after in _changed(node):
            start = lines[fault.line - 1] + fault.column
            end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            return (content[:start] + fault.after.encode() + content[end:]).decode()
    raise ValueError(f"{fault.path} has no {fault.before!r} at line {fault.line} any more.")


def drawn(root: Path, seed: int, count: int, rooms: tuple[str, ...] = ROOMS) -> list[Fault]:
    """Faults drawn with a seed: the same for the same seed and source."""
    home = root / "src" / "queryshift"
    files = sorted({file for room in rooms for file in (home / room).rglob("*.py")})
    every = [
        fault
        for file in files
        for fault in faults_of(file.relative_to(home).as_posix(), file.read_text(encoding="utf-8"))
    ]
    return Random(seed).sample(every, min(count, len(every)))


def nearest_tests(root: Path, path: str) -> list[list[str]]:
    """Tests of a file, the nearest first: those of its name, those that import it, its room's."""
    module, folder = Path(path).with_suffix(""), root / "tests"
    files = sorted(folder.rglob("test_*.py"), key=lambda file: (file.stat().st_size, file))
    room = next((one for one in ROOMS if path.startswith(f"{one}/")), module.parts[0])
    named = [file for file in files if file.stem == f"test_{module.name}"]
    dotted, (package, name) = ".".join(module.parts), (".".join(module.parts[:-1]), module.name)
    imports = re.compile(
        rf"queryshift\.{re.escape(dotted)}\b"
        rf"|from queryshift\.{re.escape(package)} import [^\n]*\b{name}\b"
    )
    importing = [file for file in files if imports.search(file.read_text(encoding="utf-8"))]
    of_room = [folder / room, *(root / more for more in MORE_TESTS.get(room, ()))]
    stages, seen = [], set[Path]()
    for stage in (named, importing, of_room):
        new = [file for file in stage if file not in seen and file.exists()]
        seen.update(new)
        if new:
            stages.append([file.relative_to(root).as_posix() for file in new])
    return stages


class Trial:
    """A copy of the source in which faults are planted one after another.

    Args:
        root: The project's folder.
        folder: A temporary one.
        tests: Which tests run which lines; None: the nearest tests are run.
        seconds: The CPU time that the tests of one fault may take.
    """

    def __init__(self, root: Path, folder: Path, tests: FaultTests | None, seconds: float) -> None:
        self._root, self._copy, self._seconds = root, folder / "src", seconds
        self._tests, self._planted = tests, 0
        shutil.copytree(root / "src", self._copy, ignore=shutil.ignore_patterns("__pycache__"))
        self._pytest = ForkedPytest(root, self._copy, folder / "compiled")
        self._known_good = set[str]()

    def outcome(self, fault: Fault) -> Outcome:
        """Plant a fault, run its tests until one notices it, and take it back."""
        started = self._pytest.spent
        file = self._copy / "queryshift" / fault.path
        before, times = file.read_text(encoding="utf-8"), file.stat()
        file.write_text(planted(fault, before), encoding="utf-8")
        self._planted += 1  # a time of its own, or Python may take what it compiled before
        os.utime(file, (times.st_atime, int(times.st_mtime) + self._planted))
        try:
            result, by = self._judged(self._stages(fault), started)
        finally:
            file.write_text(before, encoding="utf-8")
            os.utime(file, (times.st_atime, times.st_mtime))
        if result == "noticed" and not self._passes(by):
            result = "no verdict"  # that test fails without the fault too
        return Outcome(fault, result, by, round(self._pytest.spent - started, 1))

    def _stages(self, fault: Fault) -> list[list[str]]:
        """Tests that run the fault's line, a few quick ones first; else the nearest."""
        nearest = nearest_tests(self._root, fault.path)
        if self._tests is None:
            return nearest
        near = [file for stage in nearest[:-1] for file in stage]
        tests = self._tests.of(fault.path, fault.line, test_files(self._root), near)
        stages, taken = [list[str]() for _ in STAGES], 0.0
        for name, seconds in tests.items():
            taken += seconds
            for stage, most in zip(stages, STAGES, strict=True):
                if taken <= most:
                    stage.append(name)
                    break
        run = {name for stage in stages for name in stage}
        rest = dict.fromkeys(function_of(name) for name in tests if name not in run or "[" in name)
        return [stage for stage in (*stages, [*rest]) if stage] or nearest

    def _judged(self, stages: list[list[str]], started: float) -> tuple[str, str]:
        for tests in stages:
            left = self._seconds - (self._pytest.spent - started)
            code, failed = self._pytest.run(tests, left)
            if code is None:
                return "out of time", tests[0]
            if code not in (0, 5):  # 5: no test was left of those asked for
                return "noticed", failed
        return "survived", ""

    def _passes(self, test: str) -> bool:
        """Whether a test passes without a fault."""
        if test not in self._known_good and self._pytest.run([test], self._seconds)[0] == 0:
            self._known_good.add(test)
        return test in self._known_good


def test_files(root: Path) -> list[str]:
    """The files of tests that may notice a fault: those of the rooms, and of what uses them."""
    places = [root / "tests" / one for one in (*ROOMS, *MORE_FILES)]
    found = [file for one in places for file in (one, *sorted(one.rglob("test_*.py")))]
    return [file.relative_to(root).as_posix() for file in found if file.is_file()]


def record(root: Path, folder: Path, tests: FaultTests, seconds: float, copies: int = 1) -> None:
    """Record which lines the tests run, of files whose record is missing or of an older text."""
    pytest = ForkedPytest(root, root / "src", folder / "compiled")

    def recorded(file: str) -> str:
        started = time.monotonic()
        tests.keep(file, pytest.recorded(file, seconds))
        return f"recorded     {time.monotonic() - started:6.1f} s  {file}"

    left = [file for file in test_files(root) if not tests.is_recorded(file)]
    for line in _at_once(recorded, left, copies):
        print(line, flush=True)


def read_journal(path: Path) -> dict[Fault, Outcome]:
    """The outcomes so far; a last line that a kill cut off is removed from the file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        path.write_bytes(whole)
    rows = [json.loads(line) for line in whole.splitlines()]
    outcomes = [Outcome(**{**row, "fault": Fault(**row["fault"])}) for row in rows]
    return {one.fault: one for one in outcomes}


def run(
    root: Path,
    faults: list[Fault],
    journal: Path,
    seconds: float,
    copies: int = 1,
    lines: bool = True,
) -> list[Outcome]:
    """Try the faults that the journal does not have, and record each; Ctrl-C ends it early.

    Args:
        root: The project's folder.
        faults: What to plant.
        journal: The file of outcomes.
        seconds: The CPU time that the tests of one fault, or of one file, may take.
        copies: How many files of tests are recorded at once, and then faults tried, each in a
            copy of its own.
        lines: Whether to record which lines the tests run; else the nearest tests are run.
    """
    known = read_journal(journal)
    tests = FaultTests(root, journal.parent / "lines") if lines else None
    journal.parent.mkdir(parents=True, exist_ok=True)
    left = [fault for fault in faults if fault not in known]
    free: Queue[Trial] = Queue()

    def tried(fault: Fault) -> Outcome:
        trial = free.get()
        try:
            return trial.outcome(fault)
        finally:
            free.put(trial)

    with suppress(KeyboardInterrupt), TemporaryDirectory() as folder, journal.open("a") as file:
        if tests is not None:
            record(root, Path(folder), tests, seconds, copies)
        for number in range(copies):
            free.put(Trial(root, Path(folder) / str(number), tests, seconds))
        for outcome in _at_once(tried, left, copies):
            known[outcome.fault] = outcome
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            print(f"{outcome.result:12} {outcome.seconds:6.1f} s  {outcome.fault}", flush=True)
    return [known[fault] for fault in faults if fault in known]


def _at_once(made: Callable[[Given], Made], given: list[Given], copies: int) -> Iterator[Made]:
    """What is made of each, as it comes; where something fails, no further one is begun."""
    if copies == 1:
        yield from map(made, given)
        return
    with ThreadPoolExecutor(copies) as threads:
        futures = [threads.submit(made, one) for one in given]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            threads.shutdown(cancel_futures=True)


def summary(outcomes: list[Outcome], faults: int) -> str:
    """How many faults were noticed, and each that was not."""
    counts = Counter(one.result for one in outcomes)
    told = ", ".join(f"{count} {result}" for result, count in counts.most_common())
    lines = [f"{len(outcomes)} of {faults} faults tried: {told or 'none'}"]
    lines += [f"{one.result}: {one.fault}" for one in outcomes if one.result != "noticed"]
    return "\n".join(lines)


def _looked_at(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """All nodes that may be changed, without what nobody runs or only words are made of."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if name == "keywords" and ast.unparse(getattr(tree, "func", tree)) == "zip":
            continue  # strict=True says what is so
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or _is_left_out(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _looked_at(node)


def _is_left_out(node: ast.AST) -> bool:
    """Error messages, texts, what is logged, names of slots, types, and what tests do not see."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name == "__repr__"
    if isinstance(node, ast.Assign):
        return "__slots__" in map(ast.unparse, node.targets)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in LOGGING


def _changed(node: ast.expr | ast.stmt) -> list[str]:
    """What may stand in a node's place: one text for each fault."""
    match node:
        case ast.Compare(ops=ops):
            swapped = [[*ops[:i], SWAPS[type(op)](), *ops[i + 1 :]] for i, op in enumerate(ops)]
            return [_other(node, ops=some) for some in swapped]
        case ast.BoolOp(op=op):
            return [_other(node, op=SWAPS[type(op)]())]
        case ast.BinOp(op=op) if type(op) in SWAPS and not _is_text(node):
            return [_other(node, op=SWAPS[type(op)]())]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [f"({ast.unparse(operand)})"]
        case ast.Call(func=ast.Name(id=name)) if name in ENDS:
            return [_other(node, func=ast.Name(ENDS[name]))]
        case ast.Call(func=ast.Attribute(attr=name) as called) if name in ENDS:
            other = ast.Attribute(called.value, ENDS[name], ast.Load())
            return [_other(node, func=other)]
        case ast.Constant(value=bool() as value):
            return [str(not value)]
        case ast.Constant(value=int() as value):
            return [str(value + 1)]
        case ast.AugAssign():
            return ["pass"]
    return []


def _other(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f"({ast.unparse(changed)})"


def _is_text(node: ast.BinOp) -> bool:
    """Whether texts or paths are joined, not numbers."""
    sides = (node.left, node.right)
    return any(
        isinstance(one, ast.JoinedStr)
        or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))
        for one in sides
    )


def main(arguments: list[str] | None = None) -> int:
    """Draw faults, try them, print what survived; 1 where more did than may."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="which faults are drawn")
    parser.add_argument("--faults", type=int, default=300, help="how many")
    parser.add_argument("--seconds", type=float, default=600, help="CPU time for one fault's tests")
    parser.add_argument("--copies", type=int, default=1, help="files or faults at once")
    parser.add_argument("--nearest", action="store_true", help="record no lines: for few faults")
    parser.add_argument("--room", action="append", help=f"only there; one of {', '.join(ROOMS)}")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    faults = drawn(ROOT, given.seed, given.faults, tuple(given.room or ROOMS))
    journal = ROOT / ".mutate" / f"{given.seed}.jsonl"
    outcomes = run(ROOT, faults, journal, given.seconds, given.copies, not given.nearest)
    print(summary(outcomes, len(faults)))
    survivors = sum(one.result == "survived" for one in outcomes)
    return int(survivors > MOST_SURVIVORS * len(outcomes) or len(outcomes) < len(faults))


if __name__ == "__main__":
    sys.exit(main())
