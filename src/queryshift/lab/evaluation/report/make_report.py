"""Make a report of finished cells, and render it in one of the formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from queryshift.errors import check_known

from ..rank_metrics import SECONDS
from ..results import Cell, read_folder
from ..significance import RESAMPLES
from .html_page import html
from .markdown_latex_csv import comma_separated, latex, markdown
from .paper_numbers import beside_paper, timed
from .result_tables import Report, Table, tabulate
from .significance_marks import LEGEND, LEVEL, places, significance
from .terminal import terminal


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a report shows: `metric` None is the paper's own for each benchmark."""

    metric: str | None = None
    resamples: int = RESAMPLES  # 0: no tests
    seed: int = 0
    paper: bool = False
    paper_model: str = ""
    any_size: bool = False  # the paper's numbers also beside runs over other numbers of queries


def report_folder(path: str | Path, options: Options = Options()) -> Report:  # noqa: B008
    """The report of all finished cells below a folder; damaged lines are named in its notes."""
    lines = read_folder(path)
    whole = report(lines.cells, options)
    return Report(whole.tables, whole.legend, (*whole.notes, *lines.problems))


def report(cells: Sequence[Cell], options: Options = Options()) -> Report:  # noqa: B008
    """The report of these cells."""
    tables = tabulate(cells, options.metric)
    if options.paper and options.metric is None:
        tables += tabulate(timed(cells, options.paper_model), SECONDS)
    tables = [places(table) for table in tables]
    tables = [significance(table, options.resamples, options.seed) for table in tables]
    if options.paper:
        tables = [beside_paper(table, options.paper_model, options.any_size) for table in tables]
    return Report(tuple(tables), _legend(tables), _origins(cells))


FORMATS: dict[str, Callable[[Report], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "html": html,
}


def render(report: Report, form: str) -> str:
    """The report in one of `FORMATS`."""
    check_known("format", form, FORMATS)
    return FORMATS[form](report)


def _legend(tables: Sequence[Table]) -> tuple[str, ...]:
    entries = [entry for table in tables for row in table.rows.values() for entry in row if entry]
    used = dict.fromkeys(mark for entry in entries for mark in entry.marks)
    sentences = []
    if tables and all(table.higher_is_better for table in tables):
        sentences.append("Numbers are percentages.")
    if any(entry.place for entry in entries):
        sentences.append("Bold: the best. Underlined: the second best.")
    if any(entry.deviation is not None for entry in entries):
        sentences.append("±: standard deviation over seeds.")
    if used:
        meanings = ", ".join(
            f"{mark} {meaning}" for mark, meaning in LEGEND.items() if mark in used
        )
        sentences.append(f"{meanings} (paired bootstrap, Holm-corrected p ≤ {LEVEL}).")
    if any(entry.paper is not None for entry in entries):
        sentences.append("paper, diff: the paper's number, and ours less the paper's.")
    return tuple(sentences)


def _origins(cells: Sequence[Cell]) -> tuple[str, ...]:
    """A note where cells of several versions or devices stand in one report."""
    origins = {
        "versions of queryshift": Counter(c.versions.get("queryshift", "unknown") for c in cells),
        "devices": Counter(c.device or "unknown" for c in cells),
    }
    return tuple(
        f"Cells of several {kind}: "
        + ", ".join(f"{name} ({count} cells)" for name, count in counts.items())
        + "."
        for kind, counts in origins.items()
        if len(counts) > 1
    )
