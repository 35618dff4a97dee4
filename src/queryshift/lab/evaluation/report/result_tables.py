"""Tables of finished cells: a row per method, a column per shift; and their text in a grid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from queryshift.lab.corruptions.names import COMBINATIONS, NAMES
from queryshift.methods import METHODS

from ..benchmarks import AS_IT_IS, BENCHMARKS
from ..rank_metrics import SECONDS, metric
from ..results import Cell

AVERAGE = "average"
DEFAULT_METRIC = "recall@1"
MOST_SEVERE = 5
NOT_AS_PUBLISHED = "‡"  # after the name of a column
_SHIFTS = (
    *chain.from_iterable(chain(*family.values()) for family in NAMES.values()),
    *chain(*COMBINATIONS.values()),
)


class Column(NamedTuple):
    """One stream of a table, and the metric it is measured by."""

    benchmark: str
    shift: str
    metric: str


@dataclass(frozen=True)
class Entry:
    """One method's number in one column, over its seeds."""

    mean: float
    deviation: float | None = None  # over seeds; None with one
    seeds: int = 1
    place: int = 0  # 1 the best, 2 the second best, as printed
    marks: tuple[str, ...] = ()
    paper: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class Table:
    """Methods in rows, streams in columns and their average last; None where cells are missing."""

    title: str
    columns: tuple[Column, ...]
    rows: dict[str, tuple[Entry | None, ...]]  # by label
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The headings of the columns; those not corrupted as published have a mark."""
        other = {(cell.benchmark, cell.shift) for cell in self.cells if substituted(cell)}
        marked = (
            f"{column.shift or column.benchmark}{NOT_AS_PUBLISHED * (column[:2] in other)}"
            for column in self.columns
        )
        return (*marked, AVERAGE)

    @property
    def higher_is_better(self) -> bool:
        """Whether the best number is the largest."""
        name = self.columns[0].metric
        return name != SECONDS and metric(name).higher_is_better


@dataclass(frozen=True)
class Report:
    """Tables, the meaning of their marks, and notes."""

    tables: tuple[Table, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...] = ()


def substituted(cell: Cell) -> tuple[str, ...]:
    """Which parts of a cell's corruptions were not made as published."""
    return tuple(map(str, cell.settings.get("not_as_published", ())))


def metric_of(benchmark: str) -> str:
    """The paper's metric for a benchmark; recall at 1 for others."""
    return BENCHMARKS[benchmark].metric if benchmark in BENCHMARKS else DEFAULT_METRIC


def tabulate(cells: Sequence[Cell], metric_name: str | None = None) -> list[Table]:
    """A table per benchmark and severity; benchmarks of a single stream share one per protocol."""
    by_title: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_title[cell.model, *_home(cell)].append(cell)
    return [
        _table(", ".join(filter(None, key)), some, metric_name) for key, some in by_title.items()
    ]


def _home(cell: Cell) -> tuple[str, str]:
    """The subject and the severity of the table that a cell belongs to."""
    severity = f"severity {cell.severity}"
    if cell.shift != AS_IT_IS:
        return cell.benchmark, severity
    if cell.benchmark in BENCHMARKS and BENCHMARKS[cell.benchmark].clean:
        return "clean queries", ""
    about = "diverse shift" if cell.protocol == "diverse" else "another domain"
    return about, severity if 0 < cell.severity < MOST_SEVERE else ""


def _table(title: str, cells: list[Cell], metric_name: str | None) -> Table:
    cells, notes = _comparable(cells)
    columns = sorted({_column(cell, metric_name) for cell in cells}, key=_column_order)
    by_label: dict[str, list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=_row_order):
        by_label[cell.label].append(cell)
    rows = {label: _row(some, columns) for label, some in by_label.items()}
    for label, row in rows.items():
        if missing := sum(entry is None for entry in row[:-1]):
            notes.append(f"{label}: {missing} of {len(columns)} streams missing, so no average.")
    return Table(title, tuple(columns), rows, tuple(cells), (*notes, *_substitutes(cells)))


def _substitutes(cells: Sequence[Cell]) -> list[str]:
    """A note on the columns that are not corrupted as published."""
    reasons = dict.fromkeys(reason for cell in cells for reason in substituted(cell))
    if not reasons:
        return []
    return [f"{NOT_AS_PUBLISHED} not corrupted as published: {', '.join(reasons)}."]


def _comparable(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """The cells of each benchmark over the most queries; the others are left out and named."""
    most: dict[str, tuple[int, int]] = {}
    for cell in cells:
        most[cell.benchmark] = max(cell.size, most.get(cell.benchmark, cell.size))
    kept = [cell for cell in cells if cell.size == most[cell.benchmark]]
    left = Counter((c.benchmark, *c.size) for c in cells if c.size != most[c.benchmark])
    notes = [
        f"Left out {count} cells of {benchmark} over {queries} queries and {candidates} candidates:"
        f" the others have {most[benchmark][0]} and {most[benchmark][1]}."
        for (benchmark, queries, candidates), count in left.items()
    ]
    return kept, notes


def _column(cell: Cell, metric_name: str | None) -> Column:
    return Column(cell.benchmark, cell.shift, metric_name or metric_of(cell.benchmark))


def _row(cells: list[Cell], columns: Iterable[Column]) -> tuple[Entry | None, ...]:
    """The entries of one method; the average is over the seeds that have every column."""
    measured = []
    for column in columns:
        here = [c for c in cells if (c.benchmark, c.shift) == column[:2]]
        measured.append({cell.seed: cell.measure(column.metric) for cell in here})
    whole = set.intersection(*map(set, measured))
    averages = [float(np.mean([of[seed] for of in measured])) for seed in sorted(whole)]
    return (*(_entry(list(of.values())) for of in measured), _entry(averages))


def _entry(values: list[float]) -> Entry | None:
    if not values:
        return None
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Entry(float(np.mean(values)), deviation, len(values))


def _row_order(cell: Cell) -> tuple[int, str]:
    known = list(METHODS)
    return known.index(cell.method) if cell.method in known else len(known), cell.label


def _column_order(column: Column) -> tuple[int, str, int, str]:
    row = list(BENCHMARKS).index(column.benchmark) if column.benchmark in BENCHMARKS else -1
    known = _SHIFTS.index(column.shift) if column.shift in _SHIFTS else len(_SHIFTS)
    return row, column.benchmark, known, column.shift


MISSING = "–"
PAPER, DIFFERENCE = "paper", "diff"


def one_line(text: str) -> str:
    r"""The text without control characters: `ESC` becomes the four characters `\x1b`."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


@dataclass(frozen=True)
class Text:
    """The text of one cell of a grid, and how it is emphasised."""

    text: str
    spread: str = ""  # the deviation over seeds, with its sign
    place: int = 0
    marks: tuple[str, ...] = ()
    quiet: bool = False  # the paper's numbers, and differences from them


@dataclass(frozen=True)
class Grid:
    """A header over rows; the first of each row names it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]

    def transposed(self) -> Grid:
        """Shifts in rows and methods in columns, as fits a terminal."""
        names = [row[0].text for row in self.rows]
        body = zip(*(row[1:] for row in self.rows), strict=True)
        named = zip(self.header[1:], body, strict=True)
        return Grid(self.title, ("", *names), tuple((Text(name), *row) for name, row in named))


def grid(table: Table) -> Grid:
    """Methods in rows; below those the paper has, its numbers and the differences."""
    rows = []
    for label, entries in table.rows.items():
        rows.append((Text(label), *map(_ours, entries)))
        if any(entry and entry.paper is not None for entry in entries):
            rows.append((Text(PAPER, quiet=True), *map(_paper, entries)))
            rows.append((Text(DIFFERENCE, quiet=True), *map(_difference, entries)))
    return Grid(heading(table), ("method", *table.names), tuple(rows))


def heading(table: Table) -> str:
    """The title, with the metrics and the numbers of queries and candidates."""
    metrics = ", ".join(dict.fromkeys(column.metric for column in table.columns))
    sizes = sorted({cell.size for cell in table.cells})
    size = "; ".join(
        f"{queries:,} queries, {candidates:,} candidates" for queries, candidates in sizes[:2]
    )
    more = "; ..." if len(sizes) > 2 else ""
    return f"{table.title}: {metrics} ({size}{more})"


def _ours(entry: Entry | None) -> Text:
    if entry is None:
        return Text(MISSING)
    spread = "" if entry.deviation is None else f"± {entry.deviation:.1f}"
    return Text(f"{entry.mean:.1f}", spread, entry.place, entry.marks)


def _paper(entry: Entry | None) -> Text:
    known = entry is not None and entry.paper is not None
    return Text(f"{entry.paper:.1f}" if known and entry else MISSING, quiet=True)


def _difference(entry: Entry | None) -> Text:
    if entry is None or entry.difference is None:
        return Text(MISSING, quiet=True)
    return Text(f"{round(entry.difference, 1) + 0.0:+.1f}", quiet=True)  # never "-0.0"
