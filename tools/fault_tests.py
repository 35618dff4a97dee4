"""Which tests run a line of the source: recorded once for each file of tests, and kept."""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

NEAR = 3.0  # tests of another file come later, as if they took so many times longer
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class FaultTests:
    """The tests that run the code of a fault.

    Args:
        root: The project's folder.
        folder: Where records are kept, one file for each file of tests.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._home, self._root, self._folder = root / "src" / "queryshift", root, folder
        self._records: dict[str, dict[str, Any]] = {}

    def is_recorded(self, file: str) -> bool:
        """Whether a file of tests was recorded as it is now, and what it ran is still there."""
        record = self._record(file)
        if record is None or record["digest"] != digest(self._root / file):
            return False
        return all(digest(self._home / path) for path in record["sources"])

    def keep(self, file: str, tests: dict[str, Any]) -> None:
        """Keep what was recorded of a file of tests."""
        paths = sorted({path for one in tests.values() for path in one["lines"]})
        sources = {path: digest(self._home / path) for path in paths}
        record = {"digest": digest(self._root / file), "sources": sources, "tests": tests}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._place(file).write_text(json.dumps(record))
        self._records[file] = record

    def of(self, path: str, line: int, files: list[str], near: list[str]) -> dict[str, float]:
        """The tests that run a line, with the seconds each takes, quickest first.

        Args:
            path: The file of the line, within src/queryshift.
            line: The line.
            files: The files of tests to look at.
            near: Those whose tests come before others that take as long.
        """
        wanted = _lines_to_run(self._home, path, line)
        found = dict[tuple[float, str], float]()
        for file in files:
            record = self._record(file) or {"tests": {}, "sources": {}}
            changed = {
                one for one in wanted if record["sources"].get(one) != digest(self._home / one)
            }
            for name, test in record["tests"].items():
                if any(
                    one in test["lines"] and (one in changed or some & set(test["lines"][one]))
                    for one, some in wanted.items()
                ):
                    seconds = test["seconds"]
                    found[seconds * (1 if file in near else NEAR), name] = seconds
        return {name: found[order, name] for order, name in sorted(found)}

    def _record(self, file: str) -> dict[str, Any] | None:
        if file not in self._records and self._place(file).exists():
            self._records[file] = json.loads(self._place(file).read_text())
        return self._records.get(file)

    def _place(self, file: str) -> Path:
        return self._folder / f"{file.removesuffix('.py').replace('/', '.')}.json"


def _lines_to_run(home: Path, path: str, line: int) -> dict[str, set[int]]:
    """The lines that a test must run one of, by file, to notice a change of a line.

    They are the statement's. What runs when a file is imported counts where it is used: a constant
    in the lines with its name, a default in its function, all else anywhere in its file.
    """
    text = (home / path).read_text(encoding="utf-8")
    inside = [node for node in ast.walk(ast.parse(text)) if line in _span(node)]
    functions = [node for node in inside if isinstance(node, FUNCTION)]
    if functions:
        inner = max(functions, key=lambda node: node.lineno)
        if line < inner.body[0].lineno:
            return {path: set(_span(inner))}
        statement = max(
            (node for node in inside if isinstance(node, ast.stmt)), key=lambda node: node.lineno
        )
        return {path: set(_header(statement))}
    for node in inside:
        if isinstance(node, ast.Assign) and node.col_offset == 0:
            named = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
            return dict(_uses(home, named[0]))
    return {path: set(range(1, text.count("\n") + 2))}


def _span(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def _header(statement: ast.stmt) -> range:
    """The lines of a statement without those of its body."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or 0
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _uses(home: Path, name: str) -> Iterator[tuple[str, set[int]]]:
    """The lines with a constant's name; of a file that uses it outside functions, all lines."""
    word = re.compile(rf"\b{name}\b")
    for file in home.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        lines = {at for at, one in enumerate(text.splitlines(), 1) if word.search(one)}
        if not lines:
            continue
        within, apart = set[int](), set[int]()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, FUNCTION):
                within.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
            elif isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets)
            ):
                apart.update(_span(node))
        if not lines <= within | apart:
            lines = set(range(1, text.count("\n") + 2))
        yield file.relative_to(home).as_posix(), lines


@cache
def digest(file: Path) -> str:
    """What tells one text of a file from another; empty where there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""
