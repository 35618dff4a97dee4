"""The paper's numbers beside ours, and a check that the frozen model is the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from statistics import mean

from queryshift.errors import BadInput
from queryshift.lab.datasets import DATASETS

from .. import paper
from ..benchmarks import BENCHMARKS
from ..rank_metrics import SECONDS
from ..results import Cell
from .result_tables import Column, Entry, Table, metric_of

_COUNTED = {"image": ("images",), "text": ("pairs", "captions"), "image+text": ("captions",)}


def query_counts(benchmark: str) -> tuple[int, ...]:
    """The publisher's number of queries and the paper's; empty where neither is known."""
    row = BENCHMARKS.get(benchmark)
    if row is None or row.dataset not in DATASETS:
        return ()
    reader = DATASETS[row.dataset]
    parts = row.categories or (row.part or next(iter(reader.parts)),)
    counts: list[int | None] = []
    for what in _COUNTED.get(row.query, ()):
        published = [reader.parts[part].get(what) for part in parts]
        counts.append(None if None in published else sum(filter(None, published)))
        counts.append(reader.paper.get(what) if tuple(reader.paper_parts) == parts else None)
    return tuple(dict.fromkeys(count for count in counts if count))


SINGLE_STREAM = "BLIP ViT-B/16 with matching"  # beside cells of a matcher
LARGE = "BLIP ViT-L/16"  # beside cells of a model that is called large

PaperRow = Sequence[paper.Value | None]  # in the order of a table's columns


def beside_paper(table: Table, model: str = "", any_size: bool = False) -> Table:
    """The table with the numbers of one of the paper's models, by default the most like ours.

    A table over another number of queries than the paper's stays alone, unless `any_size` is set.
    """
    methods = {cell.label: cell for cell in table.cells}
    printed = {
        label: [paper_value(methods[label], column, model) for column in table.columns]
        for label in table.rows
    }
    known = any(value is not None for row in printed.values() for value in row)
    if known and not any_size and (reason := _of_another_size(table)):
        return replace(table, notes=(*table.notes, reason))
    rows = {label: _row(row, printed[label]) for label, row in table.rows.items()}
    note = _note(list(printed.values()))
    if table.columns[0].metric == SECONDS:
        note += " Machines differ: compare the methods of each with one another."
    return replace(table, rows=rows, notes=(*table.notes, note))


def _of_another_size(table: Table) -> str:
    """Why the paper's numbers are no comparison; empty if they are one."""
    for cell in table.cells:
        expected = query_counts(cell.benchmark)
        if expected and cell.queries not in expected:
            counts = " or ".join(f"{count:,}" for count in expected)
            return (
                f"The paper's numbers are left out: {cell.benchmark} has {counts} queries there "
                f"and {cell.queries:,} here. --any-size shows them all the same."
            )
    return ""


def timed(cells: Sequence[Cell], model: str = "") -> list[Cell]:
    """The cells that say how long they took, as the paper does of the same."""
    return [
        cell
        for cell in cells
        if cell.seconds is not None
        and paper_value(cell, Column(cell.benchmark, cell.shift, SECONDS), model) is not None
    ]


def paper_value(cell: Cell, column: Column, model: str = "") -> paper.Value | None:
    """The paper's number for a cell: same metric, and its severity where queries are corrupted."""
    if cell.severity not in (0, paper.SEVERITY):
        return None
    model = model or _most_like(cell)
    for label in (cell.label, cell.method):
        value = paper.find(column.benchmark, column.shift, label, model, column.metric)
        if value is not None:
            return value
    return None


def _most_like(cell: Cell) -> str:
    """The paper's model to compare with; empty: the first it reports."""
    if cell.settings.get("rerank"):
        return SINGLE_STREAM
    return LARGE if "large" in PurePath(cell.model).name.lower() else ""


def _row(row: tuple[Entry | None, ...], values: PaperRow) -> tuple[Entry | None, ...]:
    numbers = [None if value is None else value.value for value in values]
    return tuple(
        replace(entry, paper=number) if entry is not None else None
        for entry, number in zip(row, (*numbers, _average(values)), strict=True)
    )


def _average(values: PaperRow) -> float | None:
    """The printed average if a whole row of the paper is shown; else the mean of its numbers."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    rows = {value.row for value in known}
    whole = len(rows) == 1 and len(known[0].row.values) == len(known)
    printed = known[0].row.average if whole else None
    return mean(value.value for value in known) if printed is None else printed


def _note(rows: Sequence[PaperRow]) -> str:
    models = dict.fromkeys(value.model for row in rows for value in row if value is not None)
    if not models:
        return "The paper has no number for these rows."
    return f"The paper's numbers are of {', '.join(models)}."


TOLERANCE = 0.3  # in percent of queries
_FROZEN = "frozen"
CAUSES = (
    "another checkpoint: general2* and fashion-gen start from the pre-trained model, "
    "the -o, -d and x2y rows from one fine-tuned on their source",
    "another image size or interpolation: BLIP reads 384 pixels, bicubic, square, uncropped",
    "captions read otherwise: all in lower case, at most 35 tokens, the first five per COCO image",
    "another split: Karpathy's test (COCO 5,000 images, Flickr 1,000), Nocaps by domain",
    "a matching head that re-ranks: these rows are cosine alone",
    "other queries than the paper's: CIRR's answers are public for val alone, the paper's are "
    "test1's; its RSICD, RSITMD and VGGSound are not the published lists",
    "reduced precision, fewer queries (--queries), or some that could not be read",
)


def check_base(cells: Sequence[Cell]) -> list[str]:
    """Compare the frozen uncorrupted rows with the paper's; an error lists the usual causes.

    It returns a sentence for each row. There is none where the paper has no such row: its
    corruptions were unseeded, so corrupted rows are never compared.
    """
    differences = dict(_differences(cells))
    wrong = [row for row, difference in differences.items() if abs(difference) > TOLERANCE]
    if wrong:
        rows = "\n".join(f"  {row}" for row in wrong)
        causes = "\n".join(f"  - {cause}" for cause in CAUSES)
        raise BadInput(
            f"the frozen model differs from the paper's by more than {TOLERANCE}, so that nothing "
            f"built on it can be compared:\n{rows}\nWhat usually causes it:\n{causes}"
        )
    return list(differences)


def _differences(cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    """Each frozen row beside the paper's, in a sentence, and ours less the paper's."""
    natural = {name for name, row in BENCHMARKS.items() if not row.corrupted}
    frozen = [c for c in cells if c.method == _FROZEN and c.benchmark in natural]
    for benchmark in dict.fromkeys(cell.benchmark for cell in frozen):
        own = [cell for cell in frozen if cell.benchmark == benchmark]
        column = Column(benchmark, "", metric_of(benchmark))
        value = paper_value(own[0], column)
        if value is not None:
            ours, theirs = mean(cell.measure(column.metric) for cell in own), value.value
            numbers = f"ours {ours:.1f}, paper {theirs:.1f}, {ours - theirs:+.1f}"
            yield f"{benchmark}, {column.metric}: {numbers}", ours - theirs
