"""The docs site: its navigation has every page, its reference every public name."""

import re
from importlib import import_module
from pathlib import Path

import yaml

import queryshift

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def pages(entry) -> list[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages(part)]


def test_the_navigation_lists_every_page_once():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    there = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(pages(nav)) == there


def described() -> list[str]:
    """What the pages of the reference describe."""
    text = "".join(path.read_text() for path in sorted((DOCS / "reference").glob("*.md")))
    return re.findall(r"^::: (\S+)$", text, re.M)


def test_the_reference_describes_every_public_name():
    things = []
    for path in described():
        module, _, name = path.rpartition(".")
        things.append(getattr(import_module(module), name))
    for name in set(queryshift.__all__) - {"__version__"}:
        assert any(getattr(queryshift, name) is thing for thing in things), name


def test_its_index_names_them_all():
    index = (DOCS / "reference" / "index.md").read_text()
    named = set(re.findall(r"`(\w+)`", index))
    methods = {queryshift.METHODS[name].__name__ for name in queryshift.METHODS}
    assert set(queryshift.__all__) - {"__version__"} <= named | methods
