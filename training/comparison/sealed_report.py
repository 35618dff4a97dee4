"""The tables of the sealed comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from queryshift.lab.datasets.tangram_tasks import TASKS

from .lines import TASK_NAMES, table
from .sealed_plan import Rates
from .sealed_rows import (
    RIVALS,
    Row,
    Rows,
    best_rival,
    difference,
    mean_of,
    of_kind,
    over_rows,
    recall,
)
from .sealed_streams import SEVERITIES
from .units import DEFAULT, TUNED


def minute(found: Rows, costs: dict[str, float]) -> str:
    """Per task, at severity 3 online: frozen, REST, the best of REST, TCR and SHOT, ours."""
    lines = []
    for task in TASKS:
        row = found["online", task, 3]
        best = best_rival(row)
        numbers = [recall(row, m) for m in ("frozen", "frozen+hubs", "rest", best, DEFAULT)]
        shown = [f"{number:.1f}" for number in numbers]
        first = max(shown, key=float)
        shown = [f"**{one}**" if one == first else one for one in shown]
        shown[3] += f" ({best})"
        lines.append([TASK_NAMES[task], *shown])
    costly = ["frozen", "frozen+hubs", "rest", "shot", DEFAULT]
    shown = [f"{costs[method]:.1f}" for method in costly]
    shown[3] += " (shot)"
    lines.append(["cost in forwards", *shown])
    head = ["task", "frozen", "frozen + hubs", "REST", "best of REST, TCR, SHOT", "default"]
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
        some = of_kind(found, kind)
        for method in _everywhere(some):
            above = difference(over_rows(some, DEFAULT), over_rows(some, method))
            seeds = str(min(len(row[method]) for row in some))
            told = "" if method == DEFAULT else str(above)
            lines.append([kind, method, seeds, f"{mean_of(some, method):.1f}", told])
    return table(lines, ["stream", "method", "seeds", "mean", "default over it"])


def _everywhere(some: list[Row]) -> list[str]:
    """Methods that all of these rows have, best first, those alike by name."""
    shared = set.intersection(*(set(row) for row in some)) if some else set()
    return sorted(shared, key=lambda method: (-mean_of(some, method), method))


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


def rates(chosen: Rates) -> str:
    """Learning rate and temperature of each method, by task."""
    own = {task: chosen["/".join(TASKS[task][:2])] for task in TASKS}
    lines = [
        [name, *("{lr:g}, {temperature:g}".format(**own[task][name]) for task in TASKS)]
        for name in TUNED
    ]
    return table(lines, ["method", *(TASK_NAMES[task] for task in TASKS)])
