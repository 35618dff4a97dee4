"""Rows of the sealed comparison from its lines: right or not, and differences with their chance."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means

Line = dict[str, Any]
Place = tuple[str, str, int]  # kind, task, severity
Row = dict[str, np.ndarray]  # method to right or not (seeds, queries), in percent
Rows = dict[Place, Row]
DRAWS = 5000
RIVALS = ("rest", "tcr", "shot")


def read(path: Path) -> list[Line]:
    """The lines of a compressed file."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def right(line: Line) -> np.ndarray:
    """100 where a query's first answer was right, else 0."""
    packed = np.frombuffer(base64.b64decode(line["hits"]), np.uint8)
    return 100.0 * np.unpackbits(packed)[: line["queries"]]


def rows(lines: Iterable[Line]) -> Rows:
    """Means over the shifts of each row; of a method, the seeds that have them all."""
    found: dict[Place, dict[str, dict[int, dict[str, Line]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for line in lines:
        place = (_kind(line), line["task"], line["severity"])
        found[place][line["method"]][line["seed"]][line["shift"]] = line
    return {place: _whole(of) for place, of in found.items()}


def _kind(line: Line) -> str:
    """The kind of a stream, and which phase of it is counted: "noise, after"."""
    return ", ".join(filter(None, (line["kind"], line.get("phase"))))


def _whole(of: dict[str, dict[int, dict[str, Line]]]) -> Row:
    most = max(len(shifts) for seeds in of.values() for shifts in seeds.values())
    kept: Row = {}
    for method, seeds in of.items():
        whole = [seeds[seed] for seed in sorted(seeds) if len(seeds[seed]) == most]
        if whole:
            kept[method] = np.stack(
                [np.mean([right(one[s]) for s in sorted(one)], axis=0) for one in whole]
            )
    return kept


@dataclass(frozen=True)
class Difference:
    """Points by which one is above another, and what chance would do."""

    points: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        chance = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"{self.points:+.1f} ({self.low:+.1f} to {self.high:+.1f}, {chance})"


def difference(own: np.ndarray, other: np.ndarray) -> Difference:
    """Paired over queries and seeds that both have."""
    seeds = min(len(own), len(other))
    points = own[:seeds] - other[:seeds]
    rng = np.random.default_rng(0)
    draws = resampled_means(points, draw_seeds(seeds, DRAWS, rng), rng)
    low, high = np.percentile(draws, (2.5, 97.5))
    return Difference(float(points.mean()), float(low), float(high), float(p_values(draws)))


def best_rival(row: Row) -> str:
    """The best of REST, TCR and SHOT on the seeds of the default."""
    return max(RIVALS, key=lambda name: recall(row, name))


def recall(row: Row, method: str) -> float:
    """Mean recall at 1."""
    return float(row[method].mean())


def of_kind(found: Rows, kind: str) -> list[Row]:
    """The rows of one kind, all tasks and severities."""
    return [row for (one, _, _), row in found.items() if one == kind]


def mean_of(some: list[Row], method: str) -> float:
    """Mean recall of a method over rows."""
    return float(np.mean([recall(row, method) for row in some]))


def over_rows(some: list[Row], method: str) -> np.ndarray:
    """Right or not of a method (seeds, queries), the mean over rows."""
    seeds = min(len(row[method]) for row in some)
    mean: np.ndarray = np.mean([row[method][:seeds] for row in some], axis=0)
    return mean
