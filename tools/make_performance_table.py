"""Write the tables of costs in docs/performance.md and docs/research/engines.md from kept rows.

python tools/make_performance_table.py [--check]

The rows of bench/default.py are lines of bench/results/*.jsonl, those of bench/scale.py and
bench/depth.py of docs/research/scale.jsonl and depth.jsonl; of several for the same case the latest
counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, RESEARCH = ROOT / "bench" / "results", ROOT / "docs" / "research"
SESSIONS = ("default", "default, certain", "rest")
HEAD = """| where | candidates | queries | frozen | default | default, certain queries | REST |
|---|--:|---|--:|--:|--:|--:|"""
QUERIES = {"batch": "64 at once", "single": "one by one"}
SCALE_HEAD = """| candidates | gallery | build, CPU s | memory | files | batch of 64, CPU ms | \
recall@10, clean / shifted |
|--:|---|--:|--:|--:|--:|---|"""
GALLERIES = {
    "memory float32": "memory, float32",
    "memory float16": "memory, float16, mapped",
    "faiss flat": "FAISS flat",
    "faiss hnsw": "FAISS HNSW32, ef 256",
    "faiss sq8": "FAISS IVF-SQ8, nprobe 64, re-ranked in float",
    "faiss pq": "FAISS IVF-PQ64, nprobe 64, re-ranked in float",
    "postgres hnsw": "PostgreSQL HNSW (m 16), ef 256",
}
Case = tuple[str, bool, str, int, str]
Row = dict[str, Any]


def kept_rows(*files: Path) -> list[Row]:
    """All rows of some files, the earliest first."""
    lines = [line for path in files for line in path.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: str(row["date"]))


def cases(results: Path) -> dict[Case, dict[str, Row]]:
    """Each case, and its rows by session."""
    found: dict[Case, dict[str, Row]] = {}
    for row in kept_rows(*results.glob("*.jsonl")):
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


def cost_table() -> str:
    """Ratios to a frozen session, cases in order."""
    lines, found = [HEAD], cases(RESULTS)
    for case, rows in sorted(found.items()):
        numbers = [cell(rows.get("frozen"), ratio=False)]
        numbers += [cell(rows.get(session)) for session in SESSIONS]
        place = [where(case), f"{case[3]:,}", QUERIES[case[4]]]
        lines.append("| " + " | ".join([*place, *numbers]) + " |")
    return "\n".join(
        [*lines, "", measured_on([row for rows in found.values() for row in rows.values()])]
    )


def scale_table() -> str:
    """Galleries by number of candidates."""
    rows = {(row["candidates"], row["gallery"]): row for row in kept_rows(RESEARCH / "scale.jsonl")}
    order = list(GALLERIES)
    lines = [SCALE_HEAD]
    for (candidates, gallery), row in sorted(
        rows.items(), key=lambda one: (one[0][0], order.index(one[0][1]))
    ):
        sizes = [megabytes(row[name]) for name in ("memory MB", "disk MB")]
        numbers = [f"{row['build CPU s']:,.0f}", *sizes, f"{row['CPU ms']:,.0f}"]
        recalls = f"{row['clean']:.3f} / {row['shifted']:.3f}"
        cells = [f"{candidates:,}", GALLERIES[gallery], *numbers, recalls]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", measured_on(list(rows.values()))])


def depth_table() -> str:
    """Recall by the number of hits that are corrected."""
    rows = kept_rows(RESEARCH / "depth.jsonl")
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["shift"].replace("_", " "), {})[row["depth"]] = row
    depths = sorted({row["depth"] for row in rows} - {"frozen", "all"}, key=int)
    heads = ["shift", "frozen", *(f"depth {depth}" for depth in depths), "all, in memory"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for shift, by_depth in found.items():
        cells = [recalls(by_depth[depth]) for depth in ("frozen", *depths, "all")]
        lines.append("| " + " | ".join([shift, *cells]) + " |")
    return "\n".join([*lines, "", measured_on(rows)])


def recalls(row: Row) -> str:
    """Recall at 1 and at 10; after a depth, what it loses at 10."""
    lost = f" ({-row['loss@10']:+.1f} ± {row['error@10']:.1f})" if "loss@10" in row else ""
    return f"{row['recall@1']:.1f} / {row['recall@10']:.1f}{lost}"


def megabytes(size: float) -> str:
    """Such as "1.2 GB"; nothing for less than a megabyte."""
    if size < 1:
        return ""
    return f"{size / 1000:.1f} GB" if size >= 1000 else f"{size:.0f} MB"


def measured_on(rows: list[Row]) -> str:
    """The days on which rows were measured."""
    return f"Measured on {' and '.join(sorted({row['date'].split()[0] for row in rows}))}."


TABLES = {
    "costs": (ROOT / "docs" / "performance.md", cost_table),
    "depths": (RESEARCH / "engines.md", depth_table),
    "scale": (RESEARCH / "engines.md", scale_table),
}


def main(check: bool) -> int:
    """Rewrite the pages, or say which are out of date."""
    late = 0
    for name, (page, table) in TABLES.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        old = page.read_text(encoding="utf-8")
        before, _, rest = old.partition(start)
        new = f"{before}{start}\n{table()}\n{end}{rest.partition(end)[2]}"
        if new != old:
            late += 1
            print(f"{page.relative_to(ROOT)} is out of date: run tools/make_performance_table.py")
            if not check:
                page.write_text(new, encoding="utf-8")
    return int(check and late > 0)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
