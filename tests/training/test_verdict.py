"""The page's tables of the verdict without labels are what the kept signals give."""

from pathlib import Path

import pytest
from training.comparison.verdict import PHOTOGRAPHS, agreement, cases, kept

DOCS = Path(__file__).parents[2] / "docs"
ROWS = [row for row in kept(DOCS / "results" / "verdict.jsonl.gz") if row["split"] == "test"]


@pytest.mark.parametrize("photographs", [False, True])
def test_the_page_shows_what_was_measured(photographs):
    page = (DOCS / "your-own-data.md").read_text(encoding="utf-8")
    rows = [row for row in ROWS if (row["task"] in PHOTOGRAPHS) == photographs]
    *table, _ = agreement(rows)
    assert "\n".join(table) in page
    assert f"{len(rows)} streams" in page


def test_half_of_the_streams_are_harmed():
    rows = [row for row in ROWS if row["task"] not in PHOTOGRAPHS]
    harmed = sum(row["adapted"] < row["frozen"] - 1 for row in rows)
    helped = sum(row["adapted"] > row["frozen"] + 1 for row in rows)
    assert 0.45 < harmed / (harmed + helped) < 0.55


def test_development_streams_are_none_of_those_reported():
    for task in ("image", "text"):
        dev, reported = ({case.shift for case in cases(task, split)} for split in ("dev", "test"))
        assert dev & reported == {"clean"}
