"""The style's limits on size: 400 lines a file, 50 a function, its docstring not counted."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import queryshift

HOME = Path(queryshift.__file__).parent
FILES = sorted(HOME.rglob("*.py"))
FILE, FUNCTION = 400, 50


def long_functions(text: str) -> Iterator[str]:
    """The functions that are over the limit, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            described = (
                0 if ast.get_docstring(node) is None else first.end_lineno - first.lineno + 1
            )
            lines = node.end_lineno - node.lineno + 1 - described
            if lines > FUNCTION:
                yield f"{node.name}: {lines}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_files_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE
    assert list(long_functions(text)) == []


def test_a_long_function_is_told_by_its_lines_without_the_docstring():
    body = '    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * 50
    assert list(long_functions(f"def f():\n{body}")) == ["f: 51"]
    assert list(long_functions(f"def f():\n{body[:-10]}")) == []
