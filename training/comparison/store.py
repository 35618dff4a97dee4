"""Cells of `queryshift run` as they are kept with the documentation: compressed, and less of them.

python -m training.comparison.store RUNS [RUNS ...] docs/results/tangram

Of each query the best right answer's rank is kept, beyond 50 to two digits: recall at 1, 5, 10
and 50 stays exact.
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

from queryshift.results import Cell, encode, latest, read_folder

EXACT = 50
STORED = f"best rank of each query, beyond {EXACT} to two digits"


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
    """Ranks beyond 50 to two digits."""
    unit = 10 ** np.maximum(np.floor(np.log10(ranks)).astype(int) - 1, 0)
    return np.where(ranks > EXACT, (ranks + unit // 2) // unit * unit, ranks)


if __name__ == "__main__":
    *given, last = map(Path, sys.argv[1:])
    main(given, last)
