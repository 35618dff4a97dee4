"""The docs say what the code does."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from miniature import Toy, items
from queryshift import Gallery, Session
from queryshift.cli import main
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.tuning.grid_search import tune
from queryshift.methods import METHODS, WRAPPERS, Method

ROOT = Path(__file__).parents[1]


def test_every_method_has_a_page_with_its_settings_as_they_are():
    script = [sys.executable, ROOT / "tools" / "make_method_tables.py", "--check"]
    found = subprocess.run(script, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_index_names_every_method():
    index = (ROOT / "docs" / "methods" / "README.md").read_text()
    assert re.findall(r"^\| \[`(\w+)`\]", index, re.M) == [*METHODS, *WRAPPERS]


@pytest.fixture
def sharpen(monkeypatch) -> type[Method]:
    """The method of one's own from the page, in a module, and in the table as the page says."""
    index = (ROOT / "docs" / "methods" / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", index, re.S)
    (line,) = re.findall(r'^ +"(\w+)": "([\w.:]+)",$', index, re.M)
    name, home = line
    module = types.ModuleType(home.partition(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(example, "README.md", "exec"), vars(module))
    monkeypatch.setitem(METHODS.homes, name, home)
    return module.Sharpen


class TestAMethodOfOnesOwn:
    def test_learns(self, sharpen):
        encoder = Toy()
        for candidates in (3, 200):
            gallery = Gallery.build(encoder, items(candidates))
            session = Session(encoder, gallery, sharpen(best=50), lr=0.01)
            before = session.state.adapted.values
            session.answer(items(8))
            assert not torch.equal(session.state.adapted.values, before)

    def test_is_known_everywhere_by_its_name(self, sharpen, tmp_path):
        shown = CliRunner().invoke(main, ["list", "methods"]).output
        assert "sharpen        Entropy of each query's best candidates." in shown
        method = method_of("sharpen:best=50+decoupled", BENCHMARKS["tangram-o-image"])
        assert method.method == sharpen(best=50, temperature=method.method.temperature)
        encoder = Toy()
        gallery = Gallery.build(encoder, items(5))
        session = Session(encoder, gallery, method)
        session.answer(items(8))
        session.save(tmp_path / "state")
        assert Session.load(tmp_path / "state", encoder, gallery).method == session.method
        tuned = tune(encoder, gallery, items(16), sharpen(), rates=[0.01], temperatures=[0.02])
        assert tuned.method == "Sharpen"

    def test_without_a_page_it_is_named(self, tmp_path):
        text = (ROOT / "tools" / "make_method_tables.py").read_text()
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "make.py").write_text(text)
        script = [sys.executable, tmp_path / "tools" / "make.py", "--check"]
        found = subprocess.run(script, capture_output=True, text=True)
        assert found.returncode == 1
        assert "tent.md is missing: write it, with the lines <!-- settings -->" in found.stdout


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_file_that_a_page_names_is_there():
    named = {
        (page.relative_to(ROOT), name)
        for page in PAGES
        for name in re.findall(r"`((?:src|tests|training|bench|tools)/[\w./-]+)`", page.read_text())
    }
    assert len(named) > 20
    assert not [(page, name) for page, name in named if not (ROOT / name).exists()]


def test_no_link_between_pages_is_broken():
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose(page))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
