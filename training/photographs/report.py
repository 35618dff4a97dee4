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
from training.photographs.measure import CAPTIONS, STREAMS

DRAWS = 5000
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


def grid(cells: list[Cell]) -> str:
    """Mean recall over the shifted development streams, a column per rate."""
    columns = sorted(
        {
            rate
            for query in DIRECTIONS
            for own in rates(cells, query).values()
            for rate in own
            if rate
        }
    )
    rows = []
    for query in DIRECTIONS:
        for method, own in rates(cells, query).items():
            best = max(own.values())
            told = [_bold(own.get(rate), best) for rate in ([None] if None in own else columns)]
            rows.append([query, method, *told])
    return lines.table(rows, ["asked with", "method", *(f"{rate:g}" for rate in columns)])


def recalls(cells: list[Cell], query: str) -> str:
    """A row per method, a column per stream, and the mean of the shifted ones."""
    streams = list(dict.fromkeys(stream_of(cell) for cell in _in_order(cells, query)))
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if query_of(cell) == query:
            found[named(cell)[0]][stream_of(cell)].append(cell.measure("recall@1"))
    means = {
        method: {s: float(np.mean(v)) for s, v in own.items()} for method, own in found.items()
    }
    for own in means.values():
        own["mean"] = float(np.mean([own[s] for s in streams if s != CLEAN]))
    columns = [*(s for s in streams if s != CLEAN), "mean", CLEAN]
    best = {s: max(own[s] for own in means.values()) for s in columns}
    rows = [[m, *(_bold(own[s], best[s]) for s in columns)] for m, own in means.items()]
    return lines.table(rows, ["method", *columns])


def right(cells: Iterable[Cell], method: str, query: str, clean: bool = False) -> Right:
    """The mean over streams of whether a picture's first answers were right (seeds, pictures)."""
    by_seed: dict[int, list[np.ndarray]] = defaultdict(list)
    for cell in cells:
        if (named(cell)[0], query_of(cell), is_clean(cell)) == (method, query, clean):
            hits = (cell.ranks[:, 0] == 1).astype(float)
            by_seed[cell.seed].append(
                hits.reshape(-1, CAPTIONS).mean(1) if query == "text" else hits
            )
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
        "Rates on the development split": grid(val),
    }
    return "\n\n".join(f"## {title}\n\n{table}" for title, table in parts.items())


if __name__ == "__main__":
    print(page(Path(sys.argv[1]), sys.argv[2]))
