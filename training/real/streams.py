"""The kept cells of the real sets: one file for each model and benchmark, and streams of them."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.rank_metrics import metric
from queryshift.lab.evaluation.results import Cell, encode, latest, read_folder
from queryshift.lab.evaluation.significance import draw_seeds, resampled_means
from training.comparison.store import lessened
from training.comparison.tables import DRAWS, Difference
from training.real.rates import row_of

PHOTOGRAPHS, CAPTIONS = "flickr8k-image", "flickr8k-text"  # what asks
SERIES = {
    **{"aws": "AWS", "msmarco": "MS MARCO", "pacs": "PACS", "esc50": "ESC-50"},
    **{PHOTOGRAPHS: "Flickr8k, photographs", CAPTIONS: "Flickr8k, captions"},
}
TEST_PHOTOGRAPHS = ("flickr8k-o", "flickr8k-clean")
BASES, OTHERS = ("frozen", "frozen+hubs"), ("rest", "tcr", "shot", "shot+hubs")
ORDER = (*BASES, "vectors", "default", *OTHERS)
SEVERAL = ("msmarco", "aws-duplicates")  # benchmarks with several right answers to a query
METRICS = ("recall@1", "ndcg@10")


def keep(runs: Sequence[Path], kept: Path) -> list[Cell]:
    """All cells of the runs beside those kept before, one file for each model and benchmark."""
    earlier = read_folder(kept).cells if any(kept.glob("*.jsonl.gz")) else []
    new = [lessened_once(cell) for path in runs for cell in read_folder(path).cells]
    cells = latest([*earlier, *new])
    files: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        files[f"{cell.model}-{cell.benchmark}"].append(cell)
    kept.mkdir(parents=True, exist_ok=True)
    for name, own in files.items():
        text = "".join(f"{encode(cell)}\n" for cell in sorted(own, key=lambda cell: cell.key))
        (kept / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return [cell for own in files.values() for cell in own]


def lessened_once(cell: Cell) -> Cell:
    """The best rank of each query alone, except where several right answers are counted."""
    return cell if cell.benchmark.startswith(SEVERAL) else lessened(cell)


def series_of(cell: Cell) -> str:
    """The set of a cell; the two directions of Flickr8k are two."""
    row = BENCHMARKS[cell.benchmark]
    return f"flickr8k-{row.query}" if row.series in TEST_PHOTOGRAPHS else row.series


def stream_of(cell: Cell) -> str:
    """Such as "typos 10 %", "sketch" or "clean"."""
    way = cell.benchmark.removeprefix(BENCHMARKS[cell.benchmark].series).strip("-")
    if cell.shift == "typos":
        return f"typos {5 * cell.severity} %"
    by_shift = way == "noisy" or series_of(cell) in (PHOTOGRAPHS, CAPTIONS)
    return (cell.shift or "clean" if by_shift else way).replace("_", " ")


def of_series(cells: Iterable[Cell], series: str) -> list[Cell]:
    """The cells of a series, in the order of its streams, clean ones first."""
    order = sorted(BENCHMARKS, key=lambda name: "-clean" not in name)
    own = [cell for cell in cells if series_of(cell) == series]
    return sorted(own, key=lambda cell: (order.index(cell.benchmark), cell.shift, cell.severity))


@dataclass(frozen=True, eq=False)
class Stream:
    """All rows of one model on one stream."""

    series: str
    model: str
    name: str
    cells: tuple[Cell, ...]

    @property
    def queries(self) -> int:
        """How many were asked."""
        return len(self.cells[0].ranks)

    @cached_property
    def rows(self) -> list[str]:
        """The rows that were run."""
        return sorted({row_of(cell) for cell in self.cells}, key=place_of)

    def measure(self, row: str, name: str = "recall@1") -> float:
        """A row's figure, the mean of its seeds."""
        own = [cell.measure(name) for cell in self.cells if row_of(cell) == row]
        return float(np.mean(own))

    @cached_property
    def _resampled(self) -> dict[tuple[str, str], tuple[float, np.ndarray]]:
        """By row and metric: its figure over the seeds that all rows have, and in resamples.

        Resamples draw a query with all its repetitions; each counts as often as it was asked.
        """
        found = {(row_of(cell), cell.seed): cell for cell in self.cells}
        of_row = ({seed for row, seed in found if row == wanted} for wanted in self.rows)
        seeds = sorted(set.intersection(*of_row))
        keys = [(row, name) for row in self.rows for name in METRICS]
        sums = [[_sums(found[row, seed], name) for seed in seeds] for row, name in keys]
        asked = [np.bincount(_groups(found[self.rows[0], seed])) for seed in seeds]
        stacked, rng = np.array([*sums, asked], dtype=float), np.random.default_rng(0)
        drawn = resampled_means(stacked, draw_seeds(len(seeds), DRAWS, rng), rng)
        whole = stacked.sum((1, 2))
        return {
            key: (float(whole[at] / whole[-1]), drawn[:, at] / drawn[:, -1])
            for at, key in enumerate(keys)
        }

    def difference(self, row: str, other: str, name: str = "recall@1") -> Difference | None:
        """A row against another in points; None where one was not run."""
        if row == other or not {row, other} <= set(self.rows):
            return None
        (ours, own_draws), (theirs, draws) = (self._resampled[each, name] for each in (row, other))
        return Difference(ours - theirs, own_draws - draws)


def _sums(cell: Cell, name: str) -> np.ndarray:
    """Sums (G,) of a metric in percent over the repetitions of each query."""
    return np.bincount(_groups(cell), metric(name).of_each(cell.ranks))


def _groups(cell: Cell) -> np.ndarray:
    """Which queries are one and the same."""
    return np.asarray(cell.settings.get("groups", range(len(cell.ranks))))


def place_of(row: str) -> tuple[int, str]:
    """Where a row stands in tables."""
    return ORDER.index(row) if row in ORDER else len(ORDER), row


def streams(cells: Sequence[Cell], series: str) -> list[Stream]:
    """Those of a series, model by model."""
    found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in of_series(cells, series):
        found[cell.model, stream_of(cell)].append(cell)
    made = [Stream(series, *key, tuple(own)) for key, own in found.items()]
    return sorted(made, key=lambda stream: stream.model)


def row_differences(
    some: Sequence[Stream], row: str, other: str, name: str = "recall@1"
) -> list[Difference]:
    """A row against another on the streams that have both."""
    found = [stream.difference(row, other, name) for stream in some]
    return [one for one in found if one is not None]


def beyond_chance(some: Sequence[Difference]) -> tuple[int, int]:
    """How many are above zero and how many below it, beyond chance."""
    above = sum(one.points > 0 and one.beyond_chance for one in some)
    return above, sum(one.points < 0 and one.beyond_chance for one in some)


def mean_points(some: Sequence[Difference]) -> float:
    """Their mean."""
    return float(np.mean([one.points for one in some]))
