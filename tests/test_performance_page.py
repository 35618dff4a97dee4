"""The tables of costs on two pages are what the kept rows say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = Path("tools", "make_performance_table.py")
PAGES = (Path("docs", "performance.md"), Path("docs", "research", "engines.md"))
ROWS = (*(path.relative_to(ROOT) for path in (ROOT / "bench" / "results").glob("*.jsonl")),)
ROWS += tuple(Path("docs", "research", name) for name in ("scale.jsonl", "depth.jsonl"))
CASES = [(PAGES[0], "x"), (PAGES[1], "CPU ms"), (PAGES[1], "recall@10")]


def checked(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / SCRIPT, "--check"]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_tables_are_made_of_the_kept_rows():
    found = checked(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(("page", "number"), CASES, ids=str)
def test_another_number_would_be_noticed(tmp_path, page, number):
    for path in (SCRIPT, *PAGES, *ROWS):
        copy = tmp_path / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / path).read_text())
    assert checked(tmp_path).returncode == 0
    for path in ROWS:
        rows = [json.loads(line) for line in (tmp_path / path).read_text().splitlines()]
        lines = [json.dumps({**row, number: row.get(number, 0) + 1}) for row in rows]
        (tmp_path / path).write_text("\n".join(lines))
    found = checked(tmp_path)
    assert found.returncode == 1
    assert found.stdout == f"{page} is out of date: run {SCRIPT}\n"
