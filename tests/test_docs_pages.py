"""Pages that say so are run by a test, block after block, in one namespace."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SAID = "This page is run by a test, block after block."
PAGES = sorted(path.name for path in DOCS.glob("*.md") if SAID in path.read_text(encoding="utf-8"))
BLOCKS = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


@pytest.mark.parametrize("page", ["index.md", *PAGES])
def test_its_blocks_run_and_print_what_is_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    blocks = BLOCKS.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for code, shown in blocks:
        exec(compile(code, page, "exec"), names)
        assert capsys.readouterr().out == shown


def test_they_are_found():
    assert {"session.md", "galleries.md", "guard.md", "in-a-service.md"} <= set(PAGES)
