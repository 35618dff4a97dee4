"""Choose each method's learning rate and temperature from the grid, per task.

python -m training.comparison.choose GRID CHOICE

The best under shift of those that cost clean queries little: whoever turns adaptation on has
mostly clean traffic. The same rule for every method.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queryshift.datasets.tangram import TASKS

MOST_LOST = 0.5
"""Points of recall at 1 that a choice may cost clean queries."""


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
    """The grid of each task and method."""
    shifted: dict[tuple[str, str], dict[tuple[float, float], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    clean: dict[tuple[str, str, float, float], float] = {}
    frozen: dict[str, float] = {}
    for line in lines:
        task, method, place = line["task"], line["method"], (line["lr"], line["temperature"])
        recall = line["recall"][0]["1"]
        if method == "frozen":
            frozen[task] = recall
        elif line["parts"][0]["shift"] == "clean":
            clean[task, method, *place] = recall
        else:
            shifted[task, method][place].append(recall)
    return {
        (task, method): [
            Point(*place, sum(v) / len(v), clean[task, method, *place] - frozen[task])
            for place, v in of.items()
        ]
        for (task, method), of in sorted(shifted.items())
    }


def best(grid: list[Point]) -> Point:
    """The best under shift of the harmless ones; where there is none, the least harmful."""
    harmless = [point for point in grid if point.harmless]
    if not harmless:
        return max(grid, key=lambda point: point.clean)
    return max(harmless, key=lambda point: point.shifted)


def main(grid: Path, choice: Path) -> None:
    found = points(map(json.loads, grid.read_text().splitlines()))
    chosen: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for (task, method), own in found.items():
        point, encoder = best(own), "/".join(TASKS[task][:2])
        chosen[encoder][method] = {"lr": point.lr, "temperature": point.temperature}
    choice.write_text(json.dumps(chosen, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
