"""Write the numbers of the sealed comparison into the pages that have them.

python -m training.comparison.sealed_pages .
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import sealed_report as tables
from .sealed_plan import Rates
from .sealed_rows import Rows, read, rows
from .sealed_verdicts import HOSTILE, verdicts

KEPT = "sealed-2.jsonl.gz"
START, END = "<!-- sealed -->\n", "\n<!-- end of sealed -->"
TEMPLATES = Path(__file__).parent


def pages(root: Path, kept: str = KEPT) -> dict[Path, str]:
    """Each page and its text, with the numbers of a kept run."""
    results = root / "docs" / "results"
    found = rows(read(results / kept))
    costs = json.loads((results / "cheap.json").read_text())
    rates, minute = results / "sealed-rates.json", tables.minute(found, costs)
    return {
        results / "default.md": default_page(found, costs),
        results / "sealed.md": tables_page(found, json.loads(rates.read_text())),
        results / "README.md": between((results / "README.md").read_text(), minute),
    }


def default_page(found: Rows, costs: dict[str, float]) -> str:
    """The page of the default: what was missed and reached, and what cheap forms give."""
    given = list(verdicts(found, costs))
    return (
        (TEMPLATES / "default_page.md")
        .read_text()
        .format(
            minute=tables.minute(found, costs),
            missed="\n".join(str(one) for one in given if not one.reached) or "Nothing.",
            reached="\n".join(str(one) for one in given if one.reached) or "Nothing.",
            cheap=tables.cheap(found, costs),
        )
    )


def tables_page(found: Rows, rates: Rates) -> str:
    """All tables."""
    return (
        (TEMPLATES / "sealed_page.md")
        .read_text()
        .format(
            twenty=tables.twenty(found),
            means=tables.means(found, ("online", "zipf", "diverse")),
            clean=tables.other_streams(found, ("clean", "clean zipf")),
            mixed=tables.other_streams(found, ("few", "half", "tenth")),
            hostile=tables.other_streams(found, HOSTILE),
            rates=tables.rates(rates),
        )
    )


def between(text: str, table: str) -> str:
    """The text with what is between its marks replaced."""
    before, rest = text.split(START)
    return before + START + table + END + rest.split(END)[1]


def main(root: Path) -> None:
    for path, text in pages(root).items():
        path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
