"""The paper's numbers beside ours, where it has the same benchmark, shift and method."""

from __future__ import annotations

from dataclasses import replace

from .. import paper
from ..results import Cell
from .tables import Column, Entry, Table

SINGLE_STREAM = "BLIP ViT-B/16 with matching"  # beside cells of a matcher, unless told otherwise


def beside_paper(table: Table, model: str = "") -> Table:
    """The table with the paper's numbers of one of its models, by default the first it names."""
    methods = {cell.label: cell for cell in table.cells}
    rows = {label: _row(row, table, methods[label], model) for label, row in table.rows.items()}
    found = any(entry and entry.paper is not None for row in rows.values() for entry in row)
    note = () if found else ("The paper has no number for these rows.",)
    return replace(table, rows=rows, notes=(*table.notes, *note))


def theirs(cell: Cell, column: Column, model: str = "") -> float | None:
    """The paper's number for a cell: same metric, and its severity where queries are corrupted."""
    if cell.severity not in (0, paper.SEVERITY):
        return None
    if cell.settings.get("rerank"):
        model = model or SINGLE_STREAM
    for label in (cell.label, cell.method):
        value = paper.find(column.benchmark, column.shift, label, model)
        if value is not None and value.column.metric == column.metric:
            return value.value
    return None


def _row(
    row: tuple[Entry | None, ...], table: Table, cell: Cell, model: str
) -> tuple[Entry | None, ...]:
    found = [theirs(cell, column, model) for column in table.columns]
    known = [value for value in found if value is not None]
    average = sum(known) / len(known) if known and len(known) == len(found) else None
    return tuple(
        replace(entry, paper=value) if entry is not None else None
        for entry, value in zip(row, (*found, average), strict=True)
    )
