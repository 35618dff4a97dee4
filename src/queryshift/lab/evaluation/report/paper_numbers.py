"""The paper's numbers beside ours, where it has the same benchmark, shift and method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from statistics import mean

from .. import paper
from ..rank_metrics import SECONDS
from ..results import Cell
from .tables import Column, Entry, Table

SINGLE_STREAM = "BLIP ViT-B/16 with matching"  # beside cells of a matcher
LARGE = "BLIP ViT-L/16"  # beside cells of a model that is called large

Found = Sequence[paper.Value | None]  # in the order of a table's columns


def beside_paper(table: Table, model: str = "") -> Table:
    """The table with the numbers of one of the paper's models, by default the most like ours."""
    methods = {cell.label: cell for cell in table.cells}
    found = {
        label: [theirs(methods[label], column, model) for column in table.columns]
        for label in table.rows
    }
    rows = {label: _row(row, found[label]) for label, row in table.rows.items()}
    told = _note(list(found.values()))
    if table.columns[0].metric == SECONDS:
        told += " Machines differ: compare the methods of each with one another."
    return replace(table, rows=rows, notes=(*table.notes, told))


def clocked(cells: Sequence[Cell], model: str = "") -> list[Cell]:
    """The cells that say how long they took, as the paper does of the same."""
    return [
        cell
        for cell in cells
        if cell.seconds is not None
        and theirs(cell, Column(cell.benchmark, cell.shift, SECONDS), model) is not None
    ]


def theirs(cell: Cell, column: Column, model: str = "") -> paper.Value | None:
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


def _row(row: tuple[Entry | None, ...], found: Found) -> tuple[Entry | None, ...]:
    values = [None if one is None else one.value for one in found]
    return tuple(
        replace(entry, paper=value) if entry is not None else None
        for entry, value in zip(row, (*values, _average(found)), strict=True)
    )


def _average(found: Found) -> float | None:
    """As printed, where a whole row of the paper stands here; else the mean of its numbers."""
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    rows = {one.row for one in known}
    whole = len(rows) == 1 and len(known[0].row.values) == len(known)
    printed = known[0].row.average if whole else None
    return mean(one.value for one in known) if printed is None else printed


def _note(rows: Sequence[Found]) -> str:
    models = dict.fromkeys(one.model for row in rows for one in row if one is not None)
    if not models:
        return "The paper has no number for these rows."
    return f"The paper's numbers are of {', '.join(models)}."
