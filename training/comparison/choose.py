"""Choose each method's learning rate and temperature from the grid, per task.

python -m training.comparison.choose GRID CHOICE
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from queryshift.datasets.tangram import TASKS


def main(grid: Path, choice: Path) -> None:
    found: dict[tuple[str, str], dict[tuple[float, float], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for text in grid.read_text().splitlines():
        line = json.loads(text)
        found[line["task"], line["method"]][line["lr"], line["temperature"]].append(
            line["recall"][0]["1"]
        )
    chosen: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for (task, method), points in sorted(found.items()):
        (lr, temperature), _ = max(points.items(), key=lambda one: sum(one[1]) / len(one[1]))
        encoder = "/".join(TASKS[task][:2])
        chosen[encoder][method] = {"lr": lr, "temperature": temperature}
    choice.write_text(json.dumps(chosen, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
