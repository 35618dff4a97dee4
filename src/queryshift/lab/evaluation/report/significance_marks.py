"""Marks in a table: the best, the second best, and significant differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..rank_metrics import SECONDS, metric
from ..results import Cell
from ..significance import Floats, draw_seeds, holm, p_values, resampled_means
from .result_tables import Column, Entry, Table

BETTER, WORSE, FIRST = "*", "↓", "†"
LEVEL = 0.05
LEGEND = {
    BETTER: "better than the frozen model",
    WORSE: "worse than the frozen model",
    FIRST: "better than the runner-up",
}
FROZEN = "frozen"
Places = dict[tuple[str, int], list[str]]  # (label, column) -> marks


def places(table: Table) -> Table:
    """The table with its best and second best of each column; equal as printed is equal."""
    if len(table.rows) < 2:
        return table
    rows = {label: list(row) for label, row in table.rows.items()}
    for column in range(len(table.columns) + 1):
        shown = {
            label: round(entry.mean, 1)
            for label, row in rows.items()
            if (entry := row[column]) is not None
        }
        ranking = sorted(set(shown.values()), reverse=table.higher_is_better)[:2]
        for label, value in shown.items():
            entry = rows[label][column]
            if entry is not None and value in ranking:
                rows[label][column] = replace(entry, place=ranking.index(value) + 1)
    return replace(table, rows={label: tuple(row) for label, row in rows.items()})


def significance(table: Table, resamples: int, seed: int = 0) -> Table:
    """The table with differences marked that a paired bootstrap and Holm's rule uphold."""
    labels, seeds = _complete(table)
    if resamples < 1 or len(labels) < 2 or table.columns[0].metric == SECONDS:
        return table
    if not seeds:
        return _noted(table, "No test of differences: the methods have no seed in common.")
    if not all(metric(column.metric).is_mean for column in table.columns):
        return _noted(table, "No test of differences: a median has no shares to resample.")
    means = _resampled(table, labels, seeds, resamples, seed)  # (B, M, C + 1)
    marks: Places = {}
    for label, column, mark in (*_against_frozen(labels, means), *_against_second(labels, means)):
        marks.setdefault((label, column), []).append(mark)
    rows = {
        label: tuple(_marked(entry, marks.get((label, at), [])) for at, entry in enumerate(row))
        for label, row in table.rows.items()
    }
    return _noted(replace(table, rows=rows), _tested(means, len(seeds)))


def _complete(table: Table) -> tuple[list[str], list[int]]:
    """The methods with at least one seed over all columns, and the seeds they share."""
    streams = Counter((cell.label, cell.seed) for cell in table.cells)
    whole: dict[str, set[int]] = {label: set() for label in table.rows}
    for (label, seed), count in streams.items():
        if count == len(table.columns):
            whole[label].add(seed)
    labels = [label for label in table.rows if whole[label]]
    return labels, sorted(set.intersection(*(whole[label] for label in labels))) if labels else []


def _resampled(
    table: Table, labels: list[str], seeds: list[int], resamples: int, seed: int
) -> Floats:
    """Resampled metrics (B, M, C + 1), larger is better; columns of a benchmark share draws."""
    rng = np.random.default_rng(seed)
    weights = draw_seeds(len(seeds), resamples, rng)
    cells = {(c.label, c.benchmark, c.shift, c.seed): c for c in table.cells}
    sign = 1.0 if table.higher_is_better else -1.0
    parts = []
    for benchmark in dict.fromkeys(column.benchmark for column in table.columns):
        own = [column for column in table.columns if column.benchmark == benchmark]
        scores = np.array(
            [
                [
                    [_shares(cells[label, *column[:2], number], column) for number in seeds]
                    for column in own
                ]
                for label in labels
            ]
        )
        parts.append(sign * resampled_means(scores, weights, rng))
    means = np.concatenate(parts, axis=2)
    return np.concatenate([means, means.mean(axis=2, keepdims=True)], axis=2)


def _tested(means: Floats, seeds: int) -> str:
    """The basis of the test, and whether it had enough resamples."""
    resamples, methods, columns = means.shape
    comparisons = (methods - 1) * columns
    named = "1 seed" if seeds == 1 else f"{seeds} seeds"
    basis = f"Tested on {named} that all methods have, with {resamples:,} resamples"
    if comparisons * 2 / (resamples + 1) <= LEVEL:
        return f"{basis}."
    return f"{basis}: too few for {comparisons} comparisons to uphold each of them, take more."


def _shares(cell: Cell, column: Column) -> Floats:
    return metric(column.metric).shares(cell.ranks_for(column.metric), cell.categories)


def _against_frozen(labels: list[str], means: Floats) -> Iterator[tuple[str, int, str]]:
    """Every other method against the frozen one: one family over the whole table."""
    if FROZEN not in labels:
        return
    others = [row for row, label in enumerate(labels) if label != FROZEN]
    gains = means[:, others] - means[:, [labels.index(FROZEN)]]
    adjusted = holm(p_values(gains))
    for at, column in zip(*np.nonzero(adjusted <= LEVEL), strict=True):
        mark = BETTER if gains[:, at, column].mean() > 0 else WORSE
        yield labels[others[at]], int(column), mark


def _against_second(labels: list[str], means: Floats) -> Iterator[tuple[str, int, str]]:
    """The best of each column against its runner-up: one family over the columns."""
    order = np.argsort(-means.mean(axis=0), axis=0, kind="stable")  # (M, C + 1)
    columns = np.arange(means.shape[2])
    leads = means[:, order[0], columns] - means[:, order[1], columns]
    for column in np.nonzero(holm(p_values(leads)) <= LEVEL)[0]:
        yield labels[order[0, column]], int(column), FIRST


def _marked(entry: Entry | None, marks: list[str]) -> Entry | None:
    return replace(entry, marks=tuple(marks)) if entry is not None and marks else entry


def _noted(table: Table, note: str) -> Table:
    return replace(table, notes=(*table.notes, note))
