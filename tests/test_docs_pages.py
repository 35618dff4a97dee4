"""Pages that say so are run by a test, block after block, in one namespace."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["index.md", "galleries.md", "files.md"]
BLOCKS = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


@pytest.mark.parametrize("page", PAGES)
def test_its_blocks_run_and_print_what_is_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    blocks = BLOCKS.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for code, shown in blocks:
        exec(compile(code, page, "exec"), names)
        assert capsys.readouterr().out == shown


def test_every_page_that_says_it_is_run_is():
    said = "This page is run by a test, block after block."
    pages = [path.name for path in DOCS.glob("*.md") if said in path.read_text(encoding="utf-8")]
    assert set(pages) <= {*PAGES, "your-own-model.md"}
