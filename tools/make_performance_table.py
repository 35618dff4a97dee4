"""Write the table of docs/performance.md from the rows that bench/default.py kept.

python tools/make_performance_table.py [--check]

Rows are lines of bench/results/*.jsonl; of several for the same case the latest counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "bench" / "results"
START, END = "<!-- costs -->", "<!-- end of costs -->"
HEAD = "| where | candidates | queries | frozen | default | REST |\n|---|--:|---|--:|--:|--:|"
QUERIES = {"batch": "64 at once", "single": "one by one"}
Case = tuple[str, bool, str, int, str]
Row = dict[str, Any]


def cases(results: Path) -> dict[Case, dict[str, Row]]:
    """Each case, and its rows by session."""
    found: dict[Case, dict[str, Row]] = {}
    lines = [line for path in results.glob("*.jsonl") for line in path.read_text().splitlines()]
    for row in sorted(map(json.loads, lines), key=lambda row: row["date"]):
        if row["bench"] == "default":
            gallery = row["gallery"].partition(",")[0]
            tower = row["tower"] if row["encoder"] else ""
            case = (row["device"], row["encoder"], f"{gallery} {tower}".strip())
            found.setdefault((*case, row["candidates"], row["queries"]), {})[row["session"]] = row
    return found


def where(case: Case) -> str:
    """Such as "CPU, encoder, memory"."""
    device, encoder, gallery, _, _ = case
    kind = "encoder" if encoder else "vectors only"
    return f"{'GPU' if device.startswith('cuda') else 'CPU'}, {kind}, {gallery}"


def cell(row: Row | None, ratio: bool = True) -> str:
    """The ratio of medians, and of means where updates make them differ."""
    if row is None:
        return ""
    if not ratio:
        return f"{row['ms']:.1f} ms"
    mean = f" (mean {row['mean x']:.2f})" if row["mean x"] > 1.5 * row["x"] else ""
    return f"{row['x']:.2f}{mean}"


def table(results: Path) -> str:
    """The table, cases in order."""
    lines, found = [HEAD], cases(results)
    for case, rows in sorted(found.items()):
        numbers = [cell(rows.get("frozen"), ratio=False)]
        numbers += [cell(rows.get(session)) for session in ("default", "rest")]
        place = [where(case), f"{case[3]:,}", QUERIES[case[4]]]
        lines.append("| " + " | ".join([*place, *numbers]) + " |")
    days = sorted({row["date"].split()[0] for rows in found.values() for row in rows.values()})
    return "\n".join([*lines, "", f"Measured on {' and '.join(days)}."])


def main(check: bool) -> int:
    """Rewrite the page, or say that it is out of date."""
    old = PAGE.read_text(encoding="utf-8")
    before, _, rest = old.partition(START)
    new = f"{before}{START}\n{table(RESULTS)}\n{END}{rest.partition(END)[2]}"
    if new != old:
        print("docs/performance.md is out of date: run tools/make_performance_table.py")
        if not check:
            PAGE.write_text(new, encoding="utf-8")
    return int(check and new != old)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
