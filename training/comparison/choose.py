"""Choose each method's learning rate and temperature from the grid, per task.

python -m training.comparison.choose GRID [GRID ...] CHOICE

The best under shift of those that cost clean queries little, because most traffic is clean. The
rule is the same for every method.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from queryshift.lab.datasets.tangram import TASKS

from .grid import is_clean

MOST_LOST = 0.5
"""Points of recall at 1 that a choice may cost clean queries."""


Place = tuple[float, float]


@dataclass
class Recalls:
    """Recall at 1 of one point, a number for each stream."""

    shifted: list[float] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    """A learning rate and a temperature, and what they gave on the development world."""

    lr: float
    temperature: float
    shifted: float  # recall at 1, mean of the streams with a shift
    clean: float  # points gained on clean queries over no adaptation

    @property
    def harmless(self) -> bool:
        """Whether clean queries lose little enough."""
        return round(self.clean, 2) >= -MOST_LOST


def points(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[Point]]:
    """The grid of each task and method: points that have streams with a shift and without."""
    found: dict[tuple[str, str], dict[Place, Recalls]] = defaultdict(lambda: defaultdict(Recalls))
    for line in lines:
        place = line["lr"], line["temperature"]
        own = found[line["task"], line["method"]][place]
        clean = is_clean(line["parts"][0]["shift"])
        (own.clean if clean else own.shifted).append(line["recall"][0]["1"])
    frozen = {
        task: mean(next(iter(of.values())).clean)
        for (task, method), of in found.items()
        if method == "frozen"
    }
    whole = {
        (task, method): [
            Point(*place, mean(own.shifted), mean(own.clean) - frozen[task])
            for place, own in of.items()
            if own.shifted and own.clean
        ]
        for (task, method), of in sorted(found.items())
        if method != "frozen"
    }
    return {place: own for place, own in whole.items() if own}


def best(grid: list[Point]) -> Point:
    """The best under shift of the harmless ones; where there is none, the least harmful."""
    harmless = [point for point in grid if point.harmless]
    if not harmless:
        return max(grid, key=lambda point: point.clean)
    return max(harmless, key=lambda point: point.shifted)


def lines_of(grid: Path) -> list[dict[str, Any]]:
    """The lines of a grid, which may be compressed."""
    packed = grid.read_bytes()
    text = gzip.decompress(packed) if grid.suffix == ".gz" else packed
    return [json.loads(line) for line in text.splitlines()]


def main(*paths: Path) -> None:
    *grids, choice = paths
    found = points(line for grid in grids for line in lines_of(grid))
    chosen: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for (task, method), own in found.items():
        point, encoder = best(own), "/".join(TASKS[task][:2])
        chosen[encoder][method] = {"lr": point.lr, "temperature": point.temperature}
    choice.write_text(json.dumps(chosen, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
