"""The tables of docs/results/photographs.md, from what docs/results/photographs keeps: `pages.py`.

Rates are those that were best on the development split, for each method and direction, by the mean
recall at 1 over the shifted streams; the test split is only read at them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from queryshift.lab.evaluation.results import Cell
from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means
from training.comparison import lines
from training.photographs.measure import STREAMS

DRAWS = 5000
PICTURES = 1000  # of a split
DIRECTIONS = ("image", "text")
CLEAN = "clean"
RATE = re.compile(r":lr=([0-9.e-]+)")
Right = np.ndarray  # whether the first answer was right (pictures,), a mean over captions


def named(cell: Cell) -> tuple[str, float | None]:
    """A method without its rate, and the rate."""
    rate = RATE.search(cell.method)
    return RATE.sub("", cell.method), float(rate[1]) if rate else None


def query_of(cell: Cell) -> str:
    return cell.benchmark.rsplit("-", 1)[1]


def is_clean(cell: Cell) -> bool:
    return CLEAN in cell.benchmark


def stream_of(cell: Cell) -> str:
    """Such as "fog 2", "diverse 2" or "clean"."""
    kind = cell.shift or ("diverse" if cell.protocol == "diverse" else CLEAN)
    return kind if kind == CLEAN else f"{kind.replace('_', ' ')} {cell.severity}"


def rates(cells: Iterable[Cell], query: str) -> dict[str, dict[float | None, float]]:
    """Mean recall over the shifted streams by method and rate, where all of them were run."""
    found: dict[tuple[str, float | None], list[float]] = defaultdict(list)
    for cell in cells:
        if query_of(cell) == query and not is_clean(cell):
            found[named(cell)].append(cell.measure("recall@1"))
    wanted = sum(row.endswith(query) and CLEAN not in row for row, _, _ in STREAMS)
    table: dict[str, dict[float | None, float]] = defaultdict(dict)
    for (method, rate), recalls in found.items():
        if len(recalls) == wanted:
            table[method][rate] = float(np.mean(recalls))
    return table


def best_rates(cells: Iterable[Cell], query: str) -> dict[str, float | None]:
    """The rate of each method that was best on the development split."""
    return {method: max(own, key=own.get) for method, own in rates(cells, query).items()}  # type: ignore[arg-type]


def grid(cells: list[Cell], query: str) -> str:
    """Mean recall over the shifted development streams, a column per rate."""
    found = rates(cells, query)
    columns = sorted({rate for own in found.values() for rate in own if rate is not None})
    rows = [
        [method, *(_bold(own.get(rate), max(own.values())) for rate in (None, *columns))]
        for method, own in found.items()
    ]
    return lines.table(rows, ["method", "no rate", *(f"{rate:g}" for rate in columns)])


def recalls(cells: list[Cell], query: str) -> str:
    """A row per method, a column per stream, the mean of the shifted ones, and how many seeds."""
    own = _in_order(cells, query)
    streams = list(dict.fromkeys(stream_of(cell) for cell in own if not is_clean(cell)))
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[str, set[int]] = defaultdict(set)
    for cell in own:
        found[named(cell)[0]][stream_of(cell)].append(cell.measure("recall@1"))
        seeds[named(cell)[0]].add(cell.seed)
    means = {m: {s: float(np.mean(v)) for s, v in some.items()} for m, some in found.items()}
    for some in means.values():
        if all(stream in some for stream in streams):
            some["mean"] = float(np.mean([some[stream] for stream in streams]))
    columns = [*streams, "mean", CLEAN]
    best = {s: max(some.get(s, 0.0) for some in means.values()) for s in columns}
    order = sorted(means, key=lambda method: means[method].get("mean", 0.0))
    rows = [
        [m, *(_bold(means[m].get(s), best[s]) for s in columns), str(len(seeds[m]))] for m in order
    ]
    return lines.table(rows, ["method", *columns, "seeds"])


def finished(cells: Iterable[Cell]) -> list[Cell]:
    """Those of methods and seeds whose streams of one direction were all run."""
    found: dict[tuple[str, str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        found[cell.method, query_of(cell), cell.seed].append(cell)
    wanted = {query: sum(row.endswith(query) for row, _, _ in STREAMS) for query in DIRECTIONS}
    return [cell for key, own in found.items() if len(own) == wanted[key[1]] for cell in own]


def right(cells: Iterable[Cell], method: str, query: str, clean: bool = False) -> dict[int, Right]:
    """By seed, whether a picture's first answers were right (pictures,), a mean over streams."""
    by_seed: dict[int, list[Right]] = defaultdict(list)
    for cell in cells:
        if (named(cell)[0], query_of(cell), is_clean(cell)) == (method, query, clean):
            hits = cell.ranks[:, 0] == 1
            by_seed[cell.seed].append(hits.reshape(min(PICTURES, len(hits)), -1).mean(axis=1))
    return {seed: np.mean(parts, axis=0) for seed, parts in by_seed.items()}


def recall(cells: Iterable[Cell], method: str, query: str, clean: bool = False) -> float:
    """Mean recall at 1 over streams and seeds, in per cent."""
    return 100 * float(np.mean(list(right(cells, method, query, clean).values())))


@dataclass(frozen=True)
class Difference:
    """A difference in points, and what it is in resamples of pictures and seeds."""

    points: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        low, high = np.percentile(self.draws.round(9), (2.5, 97.5))
        return float(low), float(high)

    @property
    def beyond_chance(self) -> bool:
        """Whether other pictures and seeds would show it too."""
        return float(p_values(self.draws)) < 0.05

    def __str__(self) -> str:
        low, high = self.interval
        beyond = "" if self.beyond_chance else ", within chance"
        return f"{self.points:+.2f} ({low:+.2f} to {high:+.2f}{beyond})"


def difference(
    cells: list[Cell], ours: str, other: str, query: str, clean: bool = False
) -> Difference:
    """Ours against another, over the seeds that both were run with."""
    own, others = (right(cells, method, query, clean) for method in (ours, other))
    seeds = sorted(own.keys() & others.keys())
    points = 100 * np.stack([own[seed] - others[seed] for seed in seeds])
    rng = np.random.default_rng(0 if query == "image" else 1)
    drawn = resampled_means(points, draw_seeds(len(points), DRAWS, rng), rng)
    return Difference(float(points.mean()), drawn)


def in_both(cells: list[Cell], ours: str, other: str) -> Difference:
    """The mean of both directions."""
    parts = [difference(cells, ours, other, query) for query in DIRECTIONS]
    points = float(np.mean([part.points for part in parts]))
    return Difference(points, np.mean([part.draws for part in parts], axis=0))


def differences(cells: list[Cell], ours: str, others: Iterable[str]) -> str:
    """Ours against others, in points with 95 % intervals: each direction, both, and clean."""
    rows = []
    for other in others:
        parts = [difference(cells, ours, other, query) for query in DIRECTIONS]
        clean = [difference(cells, ours, other, query, clean=True) for query in DIRECTIONS]
        told = (*parts, in_both(cells, ours, other), *clean)
        rows.append([f"against {other}", *map(str, told)])
    heads = [f"{query} queries" for query in DIRECTIONS]
    return lines.table(rows, ["", *heads, "mean of both", *(f"clean {head}" for head in heads)])


def _in_order(cells: Iterable[Cell], query: str) -> list[Cell]:
    places = {(row, shift): place for place, (row, shift, _) in enumerate(STREAMS)}
    own = [cell for cell in cells if query_of(cell) == query]
    return sorted(own, key=lambda cell: places[cell.benchmark, cell.shift])


def _bold(value: float | None, best: float) -> str:
    if value is None:
        return ""
    return f"**{value:.1f}**" if value == best else f"{value:.1f}"
