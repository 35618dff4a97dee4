"""Cells of `queryshift run` as they are kept with the documentation: compressed, and less of them.

python -m training.comparison.store RUNS [RUNS ...] docs/results/FOLDER

Of each query the rank of the best right answer is kept, beyond 50 to one digit: recall at 1, 5,
10 and 50 stays exact.
"""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.lab.evaluation.results import Cell, encode, latest, read_folder

EXACT = 50
STORED = f"best rank of each query, beyond {EXACT} to one digit"


def main(runs: Iterable[Path], target: Path) -> None:
    found: dict[str, list[Cell]] = defaultdict(list)
    for cell in latest(cell for path in runs for cell in read_folder(path).cells):
        found[cell.benchmark].append(lessened(cell))
    target.mkdir(parents=True, exist_ok=True)
    for benchmark, cells in found.items():
        text = "".join(f"{encode(cell)}\n" for cell in sorted(cells, key=lambda cell: cell.key))
        packed = gzip.compress(text.encode(), 9, mtime=0)
        (target / f"{benchmark}.jsonl.gz").write_bytes(packed)
        print(f"{benchmark}: {len(cells)} cells, {len(packed):,} bytes")


def lessened(cell: Cell) -> Cell:
    ranks = rounded(cell.ranks[:, 0])
    return replace(cell, ranks=ranks, settings={**cell.settings, "stored": STORED})


def rounded(ranks: Any) -> Any:
    """Ranks beyond 50 to one digit, but never back below it."""
    unit = 10 ** np.floor(np.log10(ranks)).astype(int)
    near = np.maximum((ranks + unit // 2) // unit * unit, EXACT + 1)
    return np.where(ranks > EXACT, near, ranks)


if __name__ == "__main__":
    *given, last = map(Path, sys.argv[1:])
    main(given, last)
