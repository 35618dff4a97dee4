"""An evaluation as one HTML file that opens from disk and needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from queryshift.lab.evaluation.pages import render
from queryshift.lab.evaluation.pages.method_legend import legend
from queryshift.lab.evaluation.pages.page_items import Part, parts
from queryshift.lab.evaluation.pages.svg_curves import Chart
from queryshift.lab.evaluation.results import Cell
from queryshift.methods.specs import DEFAULT

from .evaluate import MEASURES, Evaluation
from .recommendation import label

WORST = 8  # queries of each list
WINDOWS, WINDOW = 24, 32  # points of a curve at most, queries behind each at least
THUMBNAIL = 160  # pixels


class Shown(NamedTuple):
    """An item with its id."""

    id: str
    parts: list[Part]


class Difficult(NamedTuple):
    """A query to inspect, its right answer, and each method's top-1 result."""

    query: Shown
    right: Shown
    answers: list[tuple[str, int, Shown]]  # method, rank of the right answer, top-1 result


def html(evaluation: Evaluation) -> str:
    """The page's HTML."""
    cells = evaluation.cells
    return render(
        "evaluation",
        evaluation=evaluation,
        label=label(evaluation.traffic.clicks),
        measures=MEASURES,
        **legend([cell.method for cell in cells]),
        chart=recall_along(cells) if cells else None,
        lists=difficult(evaluation) if cells else [],
    )


def recall_along(cells: Sequence[Cell]) -> Chart:
    """Recall at 1 in windows of the stream, one after another."""
    count = cells[0].queries
    points = max(1, min(WINDOWS, count // WINDOW))
    ends = np.unique(np.linspace(0, count, points + 1).round().astype(int))[1:]
    starts = [0, *ends[:-1]]
    lines = {
        cell.method: [
            100 * float((cell.ranks[start:end, 0] == 1).mean())
            for start, end in zip(starts, ends, strict=True)
        ]
        for cell in cells
    }
    values = [value for line in lines.values() for value in line]
    low, high = 10 * np.floor(min(values) / 10), 10 * np.ceil(max(values) / 10)
    return Chart(lines, ends.tolist(), bounds=(float(low), float(max(high, low + 10))))


def difficult(evaluation: Evaluation) -> list[tuple[str, list[Difficult]]]:
    """The queries that adaptation made worst, and those that are worst with the best method."""
    cells = evaluation.cells
    frozen = cells[0].ranks[:, 0].astype(int)
    best = next(cell for cell in cells if cell.method == evaluation.use)
    others = [cell for cell in cells if cell.method == DEFAULT] or cells[-1:]
    adapted = best if best is not cells[0] else others[0]
    lost = adapted.ranks[:, 0].astype(int) - frozen
    worse = [row for row in np.argsort(-lost, kind="stable")[:WORST] if lost[row] > 0]
    ranks = best.ranks[:, 0].astype(int)
    worst = [row for row in np.argsort(-ranks, kind="stable")[:WORST] if ranks[row] > 1]
    titled = {
        f"Queries that {best.method} answers worst": worst,
        f"Queries that {adapted.method} answers worse than frozen": worse,
    }
    return [
        (title, [_difficult(evaluation, int(row)) for row in rows])
        for title, rows in titled.items()
        if rows
    ]


def _difficult(evaluation: Evaluation, row: int) -> Difficult:
    """The query whose ranks are in this row of the cells."""
    asked = evaluation.traffic
    place = asked.counted[row]
    query = _shown(asked.queries.modality, asked.queries.ids[place], asked.query(place))
    answers = [
        (cell.method, int(cell.ranks[row, 0]), _candidate(evaluation, cell.settings["top"][place]))
        for cell in evaluation.cells
    ]
    return Difficult(query, _candidate(evaluation, asked.matches[place]), answers)


def _candidate(evaluation: Evaluation, positions: Sequence[int]) -> Shown:
    candidates = evaluation.traffic.candidates
    return _shown(candidates.modality, candidates.ids[positions[0]], candidates.items[positions[0]])


def _shown(modality: str, name: Any, item: Any) -> Shown:
    if modality not in ("text", "image"):
        return Shown(str(name), [])
    if modality == "image":
        from PIL import Image

        item = item if hasattr(item, "thumbnail") else Image.fromarray(np.asarray(item))
        item = item.convert("RGB")
        item.thumbnail((THUMBNAIL, THUMBNAIL))
    return Shown(str(name), parts(modality, item))
