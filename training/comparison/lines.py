"""Tables from the lines of `training.comparison.run`: mixtures, angles and the grid."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from . import choose
from .dev_shifts import DEV
from .units import DEV_STREAMS, RATES, is_clean

Line = dict[str, Any]
TASK_NAMES = {
    "image": "image to text",
    "text": "text to image",
    "video": "video to audio",
    "audio": "audio to video",
    "composed": "image + text to image",
}


def read(path: Path) -> list[Line]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def table(rows: Iterable[list[str]], head: list[str]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def groups(lines: Iterable[Line], key: Callable[[Line], Any]) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        found[key(line)].append(line)
    return found


def hits(line: Line, part: int = -1) -> np.ndarray:
    """Whether each query's first answer was right."""
    about = line["parts"][part]
    packed = np.frombuffer(base64.b64decode(line["hits"][part]), np.uint8)
    return np.unpackbits(packed)[: about["last"] - about["first"]].astype(float)


def per_seed(lines: list[Line], part: int = -1) -> np.ndarray:
    """Right or not (seeds, queries), the mean over the shifts of each seed."""
    by_seed = groups(lines, lambda line: line["seed"])
    means = [
        np.mean([hits(line, part) for line in by_seed[seed]], axis=0) for seed in sorted(by_seed)
    ]
    return np.stack(means)


def by_method(lines: list[Line]) -> Iterator[tuple[list[str], list[Line]]]:
    """What begins a row, and the lines of all seeds that it is about."""
    for task, own in groups(lines, lambda line: line["task"]).items():
        for method, some in groups(own, lambda line: line["method"]).items():
            yield [TASK_NAMES[task], method], some


def recall(lines: list[Line], part: int = -1) -> str:
    """Mean over the seeds, and their deviation."""
    means = 100 * per_seed(lines, part).mean(axis=1)
    spread = f" ± {means.std(ddof=1):.1f}" if len(means) > 1 else ""
    return f"{means.mean():.1f}{spread}"


def parts(lines: list[Line], titles: list[str]) -> str:
    rows = (
        [*start, *(recall(some, part) for part in range(len(titles)))]
        for start, some in by_method(lines)
    )
    return table(rows, ["task", "method", *titles])


def tenth(lines: list[Line]) -> str:
    rows = []
    for start, some in by_method(lines):
        found = 100 * per_seed(some).mean(axis=0)
        shifted = np.arange(len(found)) % 10 == 0
        rows.append([*start, f"{found[~shifted].mean():.1f}", f"{found[shifted].mean():.1f}"])
    return table(rows, ["task", "method", "the nine clean", "the shifted one"])


def angles(lines: list[Line]) -> str:
    rows = []
    for look, own in groups(lines, lambda line: line["look"]).items():
        for (task, method), some in by_method(own):
            means = {
                name: np.mean([line.get(name, np.nan) for line in some])
                for name in ("domain_angle", "applied_angle", "drift")
            }
            degrees = [f"{means[name]:.1f}" for name in ("domain_angle", "applied_angle")]
            stream = "diverse" if look == "plain" else look
            rows.append([task, stream, method, *degrees, f"{means['drift']:.2f}", recall(some)])
    head = ["task", "stream", "method", "method's angle", "applied angle", "drift", "recall at 1"]
    return table(rows, head)


def development(lines: list[Line]) -> str:
    """What the grid's streams give without adaptation."""
    rows = []
    for task, own in groups(lines, lambda line: line["task"]).items():
        found = {line["parts"][0]["shift"]: line for line in own if line["method"] == "frozen"}
        clean = [line["recall"][0]["1"] for shift, line in found.items() if is_clean(shift)]
        shifted = [found[f"dev:{name}"]["recall"][0]["1"] for name in DEV_STREAMS]
        names = ", ".join(shift.__name__ for shift in DEV[task])
        numbers = (*shifted, mean(clean))
        rows.append([TASK_NAMES[task], names, *(f"{number:.1f}" for number in numbers)])
    return table(rows, ["task", "shifts", "first", "second", "third", "mixed", "clean"])


def at_edge(lines: list[Line]) -> str:
    """How many of the choices have the largest rate there is, such as "3 of 55"."""
    chosen = [choose.best(own).lr for own in choose.points(lines).values()]
    return f"{chosen.count(max(RATES))} of the {len(chosen)}"


def grid(lines: list[Line]) -> str:
    rows = []
    for (task, method), own in choose.points(lines).items():
        best, free = choose.best(own), max(own, key=lambda point: point.shifted)
        name = f"{free.lr:g}, {free.temperature:g}: {free.shifted:.1f}, clean {free.clean:+.2f}"
        numbers = (f"{best.shifted:.1f}", f"{best.clean:+.2f}", "" if best is free else name)
        place = (f"{best.lr:g}", f"{best.temperature:g}")
        rows.append([TASK_NAMES[task], method, *place, *numbers])
    head = ["task", "method", "learning rate", "temperature", "under shift", "clean"]
    return table(rows, [*head, "best under shift, had it been harmless"])
