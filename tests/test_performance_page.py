"""The table of costs on docs/performance.md is what bench/results holds."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tools" / "make_performance_table.py"


def test_the_table_is_made_of_the_kept_rows():
    found = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_another_number_would_be_noticed(tmp_path):
    for folder in ("tools", "docs", "bench/results"):
        (tmp_path / folder).mkdir(parents=True)
    script = tmp_path / "tools" / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    (tmp_path / "docs" / "performance.md").write_text(
        (ROOT / "docs" / "performance.md").read_text()
    )
    for path in (ROOT / "bench" / "results").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines = (json.dumps(row | {"x": row["x"] + 1}) for row in rows if "x" in row)
        (tmp_path / "bench" / "results" / path.name).write_text("\n".join(lines))
    found = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert found.returncode == 1 and "out of date" in found.stdout
