"""Recall against cost, a point for each method.

python -m training.comparison.cheap_figure docs/results/sealed.jsonl.gz docs/results/cheap.json \\
    docs/results/figures/cheap.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.method_colours import COLOURS

from .sealed_rows import read, rows

# names that would meet others
BESIDE = {"shot+hubs": (-50, 3), "rest": (-22, 2), "tcr": (-18, -3), "eata": (-24, -3)}
OURS, OTHER = "#b3261e", "#4d5560"


def points(lines: Path, costs: Path) -> dict[str, tuple[float, float]]:
    """Forwards and recall at 1 (online, severity 3, first seed, mean of the tasks)."""
    found, cost = rows(read(lines)), json.loads(costs.read_text())
    some = [found["online", task, 3] for task in TASKS]
    shared = [name for name in cost if all(name in row for row in some)]
    return {
        name: (cost[name], float(np.mean([row[name][0].mean() for row in some]))) for name in shared
    }


def main(lines: Path, costs: Path, out: Path) -> None:
    figure = Figure(figsize=(7.2, 4.8), dpi=110, layout="constrained")
    axes = figure.subplots()
    for name, (forwards, recall) in points(lines, costs).items():
        first = name.split("+")[0].split(",")[0]
        known = COLOURS.get(first)
        colour = OURS if first == "default" else known.light if known else OTHER
        marker = "D" if "hubs" in name or first == "default" else "o"
        axes.plot(forwards, recall, marker, color=colour, markersize=6)
        offset = BESIDE.get(name, (5, 3))
        axes.annotate(name, (forwards, recall), xytext=offset, textcoords="offset points", size=7.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.set_xlim(0.9, 22)
    axes.set_xlabel("cost of a batch, in plain forwards of it")
    axes.set_ylabel("recall at 1, online, severity 3")
    axes.grid(alpha=0.25)
    figure.savefig(out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
