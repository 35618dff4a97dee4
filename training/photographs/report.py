"""The tables of docs/results/photographs.md, from what docs/results/photographs keeps.

Rates are those that were best on the development split, for each method and direction, by the mean
recall at 1 over the shifted streams; the test split is only read at them.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from queryshift.lab.evaluation.results import Cell, read_folder
from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means
from training.comparison import lines
from training.photographs.measure import STREAMS

DRAWS = 5000
PICTURES = 1000  # of a split
DIRECTIONS = ("image", "text")
CLEAN = "clean"
RATE = re.compile(r":lr=([0-9.e-]+)")
Right = np.ndarray  # whether the first answer was right, (seeds, pictures), a mean over captions


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
    """A row per method, a column per stream, and the mean of the shifted ones where all are."""
    own = _in_order(cells, query)
    streams = list(dict.fromkeys(stream_of(cell) for cell in own if not is_clean(cell)))
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in own:
        found[named(cell)[0]][stream_of(cell)].append(cell.measure("recall@1"))
    means = {m: {s: float(np.mean(v)) for s, v in some.items()} for m, some in found.items()}
    for some in means.values():
        if all(stream in some for stream in streams):
            some["mean"] = float(np.mean([some[stream] for stream in streams]))
    columns = [*streams, "mean", CLEAN]
    best = {s: max(some.get(s, 0.0) for some in means.values()) for s in columns}
    order = sorted(means, key=lambda method: means[method].get("mean", 0.0))
    rows = [[m, *(_bold(means[m].get(s), best[s]) for s in columns)] for m in order]
    return lines.table(rows, ["method", *columns])


def right(cells: Iterable[Cell], method: str, query: str, clean: bool = False) -> Right:
    """The mean over streams of whether a picture's first answers were right (seeds, pictures)."""
    by_seed: dict[int, list[np.ndarray]] = defaultdict(list)
    for cell in cells:
        if (named(cell)[0], query_of(cell), is_clean(cell)) == (method, query, clean):
            hits = cell.ranks[:, 0] == 1
            by_seed[cell.seed].append(hits.reshape(min(PICTURES, len(hits)), -1).mean(axis=1))
    return np.stack([np.mean(by_seed[seed], axis=0) for seed in sorted(by_seed)])


def differences(cells: list[Cell], ours: str, others: Iterable[str]) -> str:
    """Ours against others, in points with 95 % intervals: each direction, both, and clean."""
    rows = []
    for other in others:
        parts = [_draws(cells, ours, other, query) for query in DIRECTIONS]
        clean = [_draws(cells, ours, other, query, clean=True) for query in DIRECTIONS]
        both = (
            np.mean([gain for gain, _ in parts]),
            np.mean([draws for _, draws in parts], axis=0),
        )
        rows.append([f"against {other}", *(_told(*one) for one in (*parts, both, *clean))])
    heads = [f"{query} queries" for query in DIRECTIONS]
    return lines.table(rows, ["", *heads, "mean of both", *(f"clean {head}" for head in heads)])


def _draws(
    cells: list[Cell], ours: str, other: str, query: str, clean: bool = False
) -> tuple[float, np.ndarray]:
    """The difference in points, and what it is in resamples of pictures and seeds."""
    difference = 100 * (right(cells, ours, query, clean) - right(cells, other, query, clean))
    rng = np.random.default_rng(0 if query == "image" else 1)
    drawn = resampled_means(difference, draw_seeds(len(difference), DRAWS, rng), rng)
    return float(difference.mean()), drawn


def _told(gain: float, draws: np.ndarray) -> str:
    low, high = np.percentile(draws.round(9), (2.5, 97.5))
    beyond = "" if float(p_values(draws)) < 0.05 else ", within chance"
    return f"{gain:+.2f} ({low:+.2f} to {high:+.2f}{beyond})"


def _in_order(cells: Iterable[Cell], query: str) -> list[Cell]:
    places = {(row, shift): place for place, (row, shift, _) in enumerate(STREAMS)}
    own = [cell for cell in cells if query_of(cell) == query]
    return sorted(own, key=lambda cell: places[cell.benchmark, cell.shift])


def _bold(value: float | None, best: float) -> str:
    if value is None:
        return ""
    return f"**{value:.1f}**" if value == best else f"{value:.1f}"


def page(folder: Path, ours: str) -> str:
    """All tables, one below the other."""
    val, test = (read_folder(folder / part).cells for part in ("val", "test"))
    parts: Mapping[str, str] = {
        "Image queries, test split": recalls(test, "image"),
        "Text queries, test split": recalls(test, "text"),
        f"`{ours}` against the others": differences(test, ours, ("frozen", "shot", "rest", "tcr")),
        "Rates for image queries, development split": grid(val, "image"),
        "Rates for text queries, development split": grid(val, "text"),
    }
    return "\n\n".join(f"## {title}\n\n{table}" for title, table in parts.items())


if __name__ == "__main__":
    print(page(Path(sys.argv[1]), sys.argv[2]))
