"""The import rule: a module imports only modules above it, by string too; help loads no torch."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import queryshift

HOME = Path(queryshift.__file__).parent
PRODUCT = (
    *("errors", "support", "media", "encoders", "galleries", "retrieval", "methods", "sessions"),
    *("models", "indexing", "integrations", "client", "serving"),
)
LAB = (
    *("corruptions", "tangram", "datasets", "evaluation", "figures", "demo", "own_traffic"),
    "tuning",
)
ROOMS = (*PRODUCT, *(f"lab.{room}" for room in LAB), "cli", "__main__")
FILES = sorted(HOME.rglob("*.py"))


def module_of(path: Path) -> tuple[str, ...]:
    """("queryshift", "methods", "tent"); a package's own file is the package."""
    parts = ("queryshift", *path.relative_to(HOME).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def nodes(tree: ast.AST, functions: bool) -> Iterator[ast.AST]:
    """All nodes but those for the type checker; inside functions too, if asked for."""
    for child in ast.iter_child_nodes(tree):
        if for_types_only(child):
            continue
        yield child
        if functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from nodes(child, functions)


def imports(path: Path, functions: bool = True) -> Iterator[tuple[str, ...]]:
    """What a file imports of queryshift, as modules."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
    for node in nodes(ast.parse(path.read_text()), functions):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = (*start, *(node.module or "").split(".")) if node.module else start
            for alias in node.names:
                inner = (*base, alias.name)
                yield inner if is_module(inner) else base


def named_in_strings(path: Path) -> Iterator[tuple[str, ...]]:
    """Modules of queryshift that a file names in strings: tables, `import_module`, loggers."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree, functions=True):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        dotted = re.fullmatch(r"(queryshift(?:\.\w+)+)\.?(?::\w+)?", node.value)
        if id(node) not in prose and dotted and is_module(found := tuple(dotted[1].split("."))):
            yield found


def is_module(name: tuple[str, ...]) -> bool:
    path = HOME.joinpath(*name[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def room_of(module: tuple[str, ...]) -> str:
    """The room a module lies in: "sessions", "lab.datasets"; "lab" is the laboratory's own file."""
    return ".".join(module[1:3]) if module[1] == "lab" else module[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_a_room_imports_only_rooms_above_it(path):
    module = module_of(path)
    if module in (("queryshift",), ("queryshift", "lab")):
        return  # the public names, imported late
    room = room_of(module)
    assert room in ROOMS, f"{room} is no room: give it a place in ROOMS"
    for other in (*imports(path), *named_in_strings(path)):
        if other[0] == "queryshift" and len(other) > 1 and room_of(other) != room:
            assert ROOMS.index(room_of(other)) < ROOMS.index(room), ".".join(other)


def test_the_root_holds_no_modules_but_three():
    assert {path.name for path in HOME.glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}


def test_no_modules_import_each_other():
    graph = {
        module_of(path): {
            other
            for other in imports(path, functions=False)
            if other[0] == "queryshift" and len(other) > 1 and other != module_of(path)
        }
        for path in FILES
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_the_rule_would_notice(tmp_path, monkeypatch):
    path = HOME / "methods" / "losses.py"
    broken = "import torch\ndef f():\n    from ..sessions.session import Session\n"
    monkeypatch.setattr(Path, "read_text", lambda self: broken)
    assert ("queryshift", "sessions", "session") in set(imports(path))
    assert ("queryshift", "sessions", "session") not in set(imports(path, functions=False))


@pytest.mark.parametrize(
    "code",
    [
        'import_module("queryshift.lab.corruptions")',
        'TABLE = {"tangram": "queryshift.lab.tangram.model:load"}',
        'import_module(f"queryshift.lab.{name}")',
    ],
)
def test_the_rule_would_notice_a_string(code, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: code)
    (found,) = named_in_strings(HOME / "serving" / "corrupting.py")
    assert found[:2] == ("queryshift", "lab")


def test_prose_and_other_names_are_no_modules(monkeypatch):
    text = '"""queryshift.lab.tangram"""\nFILE = "queryshift.db"\nprint("see queryshift.lab")'
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert list(named_in_strings(HOME / "errors.py")) == []


HEAVY = ("torch", "numpy", "cv2", "transformers")


def loaded_after(code: str) -> list[str]:
    check = f"{code}\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ast.literal_eval(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "code",
    [
        "import queryshift; dir(queryshift)",
        "from queryshift import METHODS, MODELS, Error; list(METHODS); list(MODELS)",
        "from queryshift.cli import main; main(['--help'], standalone_mode=False)",
        "from queryshift.cli import main; main(['--version'], standalone_mode=False)",
    ],
)
def test_names_and_help_load_nothing_heavy(code):
    assert loaded_after(code) == []


def test_the_check_would_notice():
    assert loaded_after("import numpy") == ["numpy"]


def test_every_public_name_is_there():
    for name in queryshift.__all__:
        assert getattr(queryshift, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Adapter'"):
        _ = queryshift.Adapter


def test_the_folders_of_tests_can_be_run_in_any_combination():
    files = [path for path in Path(__file__).parent.rglob("*.py") if path.name != "conftest.py"]
    assert len({path.name for path in files}) == len(files)  # they are imported by name
    for path in files:  # but a conftest is another one in every folder
        tree = ast.walk(ast.parse(path.read_text()))
        froms = {node.module for node in tree if isinstance(node, ast.ImportFrom)}
        assert "conftest" not in froms, path


def test_the_package_runs_as_the_command():
    run = [sys.executable, "-m", "queryshift", "list", "--help"]
    ran = subprocess.run(run, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Usage: queryshift list")
