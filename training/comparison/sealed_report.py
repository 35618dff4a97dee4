"""The tables of docs/results/default.md.

python -m training.comparison.sealed_report docs/results/sealed.jsonl.gz docs/results/cheap.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from queryshift.lab.datasets.tangram_tasks import TASKS

from .lines import TASK_NAMES, table
from .sealed_rows import (
    DEFAULT,
    RIVALS,
    Place,
    Row,
    best_rival,
    difference,
    read,
    recall,
    rows,
)
from .sealed_streams import SEVERITIES

ELEVEN = ("tent", "pl", "shot", "eata", "sar", "read", "come", "tsa", "tcr", "rest")
Rows = dict[Place, Row]


def minute(found: Rows, costs: dict[str, float]) -> str:
    """Per task, at severity 3 online: frozen, REST, the best of the eleven, ours."""
    lines = []
    for task in TASKS:
        row = found["online", task, 3]
        best = max((m for m in ELEVEN if m in row), key=lambda m: recall(row, m))
        numbers = [recall(row, m) for m in ("frozen", "frozen+hubs", "rest", best, DEFAULT)]
        shown = [f"{number:.1f}" for number in numbers]
        shown[3] += f" ({best})"
        lines.append([TASK_NAMES[task], *shown[:-1], f"**{shown[-1]}**"])
    costly = ["frozen", "frozen+hubs", "rest", "shot", DEFAULT]
    lines.append(["cost in forwards", *(f"{costs[m]:.1f}" for m in costly)])
    head = ["task", "frozen", "frozen + hubs", "REST", "best of the eleven", "default"]
    return table(lines, head)


def twenty(found: Rows) -> str:
    """Online and diverse rows: the default against the best of REST, TCR and SHOT."""
    lines = [
        _against(found[kind, task, severity], [kind, TASK_NAMES[task], str(severity)])
        for kind in ("online", "diverse")
        for task in TASKS
        for severity in SEVERITIES
        if DEFAULT in found.get((kind, task, severity), {})
    ]
    head = ["stream", "task", "severity", "seeds", "frozen", *RIVALS, DEFAULT, "over the best"]
    return table(lines, head)


def _against(row: Row, start: list[str]) -> list[str]:
    names = ("frozen", *RIVALS, DEFAULT)
    numbers = [f"{recall(row, name):.1f}" for name in names]
    best = difference(row[DEFAULT], row[best_rival(row)])
    return [*start, str(len(row[DEFAULT])), *numbers, str(best)]


def means(found: Rows, kinds: Sequence[str]) -> str:
    """Means over the ten rows of a kind, of every method that has them all."""
    lines = []
    for kind in kinds:
        some = [row for (one, _, _), row in found.items() if one == kind]
        for method in _everywhere(some):
            values = [row[method].mean() for row in some]
            own = [row[DEFAULT][: len(row[method])] - row[method] for row in some]
            above = difference(np.mean(own, axis=0), np.zeros_like(np.mean(own, axis=0)))
            seeds = str(min(len(row[method]) for row in some))
            told = "" if method == DEFAULT else str(above)
            lines.append([kind, method, seeds, f"{np.mean(values):.1f}", told])
    return table(lines, ["stream", "method", "seeds", "mean", "default over it"])


def _everywhere(some: list[Row]) -> list[str]:
    """Methods that all of these rows have, best first."""
    shared = set.intersection(*(set(row) for row in some)) if some else set()
    return sorted(shared, key=lambda m: -np.mean([row[m].mean() for row in some]))


def other_streams(found: Rows, kinds: Iterable[str]) -> str:
    """Streams of one row a task: frozen, the three, and the default."""
    lines = []
    for kind in kinds:
        for task in TASKS:
            row = found.get((kind, task, 3), {})
            if DEFAULT in row:
                over = difference(row[DEFAULT], row["frozen"])
                lines.append([*_against(row, [kind, TASK_NAMES[task]]), str(over)])
    head = ["stream", "task", "seeds", "frozen", *RIVALS, DEFAULT, "over the best", "over frozen"]
    return table(lines, head)


def cheap(found: Rows, costs: dict[str, float]) -> str:
    """Recall at severity 3, mean of the tasks on the first seed, and cost in forwards."""
    some = [found["online", task, 3] for task in TASKS]
    lines = [
        [method, f"{np.mean([row[method][0].mean() for row in some]):.1f}", f"{costs[method]:.2f}"]
        for method in _everywhere(some)
        if method in costs
    ]
    return table(lines, ["method", "recall at 1", "forwards"])


def main(lines: Path, costs: Path) -> None:
    found, cost = rows(read(lines)), json.loads(costs.read_text())
    parts = {
        "In a minute": minute(found, cost),
        "Online and diverse": twenty(found),
        "Means": means(found, ("online", "zipf", "diverse")),
        "Clean": other_streams(found, ("clean", "clean zipf")),
        "Few and mixed": other_streams(found, ("few", "half", "tenth")),
        "Hostile": other_streams(found, ("sorted", "repeated", "noise")),
        "Cheap": cheap(found, cost),
    }
    print("\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items()))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
