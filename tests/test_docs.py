"""The docs say what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import torch

from miniature import Toy, items
from queryshift import Gallery, Session
from queryshift.methods import METHODS, WRAPPERS

ROOT = Path(__file__).parents[1]


def test_every_method_has_a_page_with_its_settings_as_they_are():
    script = [sys.executable, ROOT / "tools" / "make_method_tables.py", "--check"]
    found = subprocess.run(script, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_index_names_every_method():
    index = (ROOT / "docs" / "methods" / "README.md").read_text()
    assert re.findall(r"^\| \[`(\w+)`\]", index, re.M) == [*METHODS, *WRAPPERS]


def test_the_method_of_ones_own_runs():
    index = (ROOT / "docs" / "methods" / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", index, re.S)
    names: dict[str, type] = {"__name__": "example"}
    exec(compile(example, "README.md", "exec"), names)
    encoder = Toy()
    gallery = Gallery.from_vectors(range(200), torch.randn(200, encoder.encode(items(1)).shape[1]))
    session = Session(encoder, gallery, names["Sharpen"]())
    before = session.state.adapted.values
    session.answer(items(8))
    assert not torch.equal(session.state.adapted.values, before)


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)


def test_no_link_between_pages_is_broken():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose(page))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
