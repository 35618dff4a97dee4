"""Keep what was run on the real sets, and write docs/results/real.md from all that is kept.

python -m training.real.pages [RUNS ...]

Beside the kept cells in docs/results/real: `figures.csv` has recall@1 and nDCG@10 of every row,
`differences.csv` the difference of every two rows with its interval, `rates.csv` the learning
rates that were tried on development parts.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np

from queryshift.lab.evaluation.results import Cell
from training.comparison.tables import Difference, table
from training.real.advice import meaning
from training.real.other_scripts import RESULT as OTHER_SCRIPTS
from training.real.rates import means
from training.real.streams import (
    BASES,
    CAPTIONS,
    METRICS,
    OTHERS,
    PHOTOGRAPHS,
    SERIES,
    Stream,
    beyond_chance,
    keep,
    mean_points,
    place_of,
    row_differences,
    streams,
)

TEMPLATE = Path(__file__).with_name("page.md")
RESULTS = Path("docs") / "results"
FIGURES, DIFFERENCES, RATES = "figures.csv", "differences.csv", "rates.csv"
PHOTOGRAPH_RATES = "photographs-rates.json"
VECTORS, HUBS = "vectors", "frozen+hubs"
OURS = ("default", VECTORS)
NEAR = 0.5  # points below a base that still count as level
NOT_RUN = "Not run."
RIVALS, AHEAD = ("rest", "shot", "shot+hubs"), 1.0  # points that we wanted over the best of them


def recalls(some: Sequence[Stream], name: str = "recall@1") -> str:
    """A row per model and method, a column per stream.

    BM25 has no model; `vectors` is left out where its figures are those of `frozen+hubs`.
    """
    columns = list(dict.fromkeys(stream.name for stream in some))
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for stream in some:
        for row in stream.rows:
            model = "none" if row in ("bm25", "spelling+bm25") else stream.model
            found[model, row][stream.name] = f"{stream.measure(row, name):.1f}"
    for model, row in list(found):
        if row == VECTORS and found[model, row] == found.get((model, HUBS)):
            del found[model, row]
    rows = [
        [model, row, *(own.get(column, "") for column in columns)]
        for (model, row), own in sorted(
            found.items(), key=lambda item: (item[0][0], place_of(item[0][1]))
        )
    ]
    return table(rows, ["model", "row", *columns]) if rows else NOT_RUN


def told(one: Difference | None) -> str:
    """A difference with its interval, bold where it is beyond chance."""
    if one is None:
        return ""
    low, high = one.interval
    points = f"{one.points:+.1f}"
    return f"{f'**{points}**' if one.beyond_chance else points} ({low:+.1f} to {high:+.1f})"


def differences(some: Sequence[Stream], name: str = "recall@1") -> str:
    """The default against the bases: a row per model and stream."""
    rows = [
        [
            stream.model,
            stream.name,
            f"{stream.queries:,}",
            *(told(stream.difference("default", base, name)) for base in BASES),
        ]
        for stream in some
        if "default" in stream.rows
    ]
    head = ["model", "stream", "queries", *(f"against `{base}`" for base in BASES)]
    return table(rows, head) if rows else NOT_RUN


def by_ndcg(some: Sequence[Stream]) -> str:
    """What nDCG@10 says of the default, in a sentence."""
    parts = []
    for base, name in zip(BASES, ("the encoder alone", "hub correction"), strict=True):
        against = row_differences(some, "default", base, "ndcg@10")
        if against:
            above, below = beyond_chance(against)
            parts.append(f"{mean_points(against):+.1f} points against {name} ({above}, {below})")
    return (
        f"By nDCG@10, the default is on average {' and '.join(parts)}; in brackets, on how many "
        "streams it is above and below, beyond chance."
        if parts
        else NOT_RUN
    )


def published(some: Sequence[Stream]) -> str:
    """The default against published methods: how many streams it wins and loses, by set."""
    rows = []
    for series, other in product(SERIES, OTHERS):
        own = [stream for stream in some if stream.series == series]
        name = "ndcg@10" if series == "msmarco" else "recall@1"
        known = row_differences(own, "default", other, name)
        if known:
            above, below = beyond_chance(known)
            counts = map(str, (len(known), above, len(known) - above - below, below))
            rows.append([SERIES[series], f"`{other}`", *counts, f"{mean_points(known):+.1f}"])
    head = ["set", "against", "streams", "above", "within chance", "below", "mean points"]
    return table(rows, head) if rows else NOT_RUN


def all_figures(some: Iterable[Stream]) -> str:
    """Every row of every stream, as CSV."""
    rows = [
        [stream.series, stream.model, stream.name, row, stream.queries]
        + [f"{stream.measure(row, name):.2f}" for name in METRICS]
        for stream in some
        for row in stream.rows
    ]
    return _csv(["set", "model", "stream", "row", "queries", *METRICS], rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def all_differences(some: Iterable[Stream]) -> str:
    """Every two rows of every stream, as CSV."""
    rows = []
    for stream in some:
        for (other, row), name in product(combinations(stream.rows, 2), METRICS):
            one = stream.difference(row, other, name)
            assert one is not None
            figures = [f"{value:.2f}" for value in (one.points, *one.interval)]
            place = [stream.series, stream.model, stream.name, row, other, name]
            rows.append([*place, *figures, "yes" if one.beyond_chance else "no"])
    places = ["set", "model", "stream", "row", "against", "metric"]
    return _csv([*places, "points", "low", "high", "beyond chance"], rows)


def losses(some: Sequence[Stream]) -> str:
    """The streams on which ours is below a base, the worst first."""
    lost = []
    for stream, ours, base in product(some, OURS, BASES):
        one = stream.difference(ours, base)
        if one is not None and _is_loss(one):
            place = [SERIES[stream.series], stream.model, stream.name, f"`{ours}`"]
            lost.append((one.points, [*place, f"`{base}`", told(one)]))
    if lost:
        head = ["set", "model", "stream", "row", "against", "points"]
        return table([row for _, row in sorted(lost)], head)
    run = any(row in OURS for stream in some for row in stream.rows)
    return "None in what was run." if run else "Our default was not run."


def _is_loss(one: Difference) -> bool:
    return one.points < -NEAR or (one.points < 0 and one.beyond_chance)


def photographs(some: Sequence[Stream]) -> str:
    """Means over the shifted streams of Flickr8k, and how far ahead the default is."""
    shifted = [
        stream
        for stream in some
        if stream.series in (PHOTOGRAPHS, CAPTIONS) and stream.name != "clean"
    ]
    if not shifted:
        return NOT_RUN
    sides = [[one for one in shifted if one.series == side] for side in (PHOTOGRAPHS, CAPTIONS)]
    parts = {
        f"photographs ({len(sides[0])})": sides[0],
        f"captions ({len(sides[1])})": sides[1],
        f"all ({len(shifted)})": shifted,
    }
    rows = sorted(set.intersection(*(set(stream.rows) for stream in shifted)), key=place_of)
    lines = [
        [row, *(f"{_mean(own, row):.1f}" if own else "" for own in parts.values())] for row in rows
    ]
    told_means = table(lines, ["row", *parts])
    rivals = [row for row in RIVALS if row in rows]
    if "default" not in rows or not rivals:
        return told_means
    best = max(rivals, key=lambda row: _mean(shifted, row))
    one = mean_difference(shifted, "default", best)
    reached = "reached" if one.points >= AHEAD else "missed"
    names = ", ".join(f"`{row}`" for row in rivals[:-1]) + f" and `{rivals[-1]}`"
    return (
        f"{told_means}\n\nWe wanted the default at least {AHEAD:g} point above the best of {names} "
        f"on average of the shifted streams. The best of them is `{best}`; the default is "
        f"{told(one)} points against it. **The target is {reached}.**"
    )


def _mean(some: Sequence[Stream], row: str) -> float:
    return float(np.mean([stream.measure(row) for stream in some]))


def mean_difference(some: Sequence[Stream], row: str, other: str) -> Difference:
    """The mean difference of streams; where they ask the same queries, these are drawn together."""
    found = row_differences(some, row, other)
    draws = np.mean([one.draws for one in found], axis=0)
    return Difference(float(np.mean([one.points for one in found])), draws)


def all_rates(cells: Iterable[Cell], kept: Path) -> str:
    """Recall@1 at every learning rate that was tried on a development part, as CSV."""
    rows = [
        ["aws", model, row, f"{rate:g}", f"{value:.2f}"]
        for (model, row), own in sorted(means(cells).items())
        for rate, value in own.items()
    ]
    path = kept / PHOTOGRAPH_RATES
    tried = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows += [
        [f"flickr8k-{query}", "photographs", row, rate, f"{value:.2f}"]
        for query, own in sorted(tried.items())
        for row, by_rate in sorted(own.items())
        for rate, value in sorted(by_rate.items(), key=lambda item: float(item[0]))
    ]
    return _csv(["set", "model", "row", "rate", "recall@1"], rows)


def page(some: Sequence[Stream]) -> str:
    """The page of the real sets."""
    parts = {
        "meaning": meaning(some),
        "losses": losses(some),
        "aws_ndcg": by_ndcg([stream for stream in some if stream.series == "aws"]),
        "published": published(some),
        "photographs": photographs(some),
        "other_scripts": OTHER_SCRIPTS.read_text(encoding="utf-8").strip(),
    }
    for series in SERIES:
        own = [stream for stream in some if stream.series == series]
        name = series.replace("-", "_")
        metric = "ndcg@10" if series == "msmarco" else "recall@1"
        parts[name] = recalls(own, metric)
        parts[f"{name}_differences"] = differences(own, metric)
    return TEMPLATE.read_text(encoding="utf-8").format(**parts)


def main(runs: Sequence[Path]) -> None:
    kept = RESULTS / "real"
    cells = keep(runs, kept)
    some = [stream for series in SERIES for stream in streams(cells, series)]
    (RESULTS / "real.md").write_text(page(some), encoding="utf-8")
    (kept / FIGURES).write_text(all_figures(some), encoding="utf-8")
    (kept / DIFFERENCES).write_text(all_differences(some), encoding="utf-8")
    (kept / RATES).write_text(all_rates(cells, kept), encoding="utf-8")
    print(f"{len(cells)} cells in {kept}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
