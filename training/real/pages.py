"""Keep what was run on the real sets, and write docs/results/real.md from all that is kept.

python -m training.real.pages [RUNS ...]

Differences of every two rows, with intervals, go to docs/results/real/differences.csv.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path

import numpy as np

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.rank_metrics import metric
from queryshift.lab.evaluation.results import Cell, encode, latest, read_folder
from queryshift.lab.evaluation.significance import draw_seeds, resampled_means
from training.comparison.store import lessened
from training.comparison.tables import DRAWS, Difference, table
from training.real.other_scripts import RESULT as OTHER_SCRIPTS
from training.real.rates import means, row_of

TEMPLATE = Path(__file__).with_name("page.md")
RESULTS = Path("docs") / "results"
DIFFERENCES = "differences.csv"
PHOTOGRAPHS, CAPTIONS = "flickr8k-image", "flickr8k-text"  # what asks
SERIES = {
    **{"aws": "AWS", "msmarco": "MS MARCO", "pacs": "PACS", "esc50": "ESC-50"},
    **{PHOTOGRAPHS: "Flickr8k, photographs", CAPTIONS: "Flickr8k, captions"},
}
OURS, BASES = ("default", "vectors"), ("frozen", "frozen+hubs")
OTHERS = ("rest", "tcr", "shot", "shot+hubs")
ORDER = (*BASES, "vectors", "default", *OTHERS)
SEVERAL = ("msmarco", "aws-duplicates")  # benchmarks with several right answers to a query
MISSPELT = "typos 10 %"
NEAR = 0.5  # points below a base that still count as level
METRICS = ("recall@1", "ndcg@10")
NOT_RUN = "Not run."
RIVALS, AHEAD = ("rest", "shot", "shot+hubs"), 1.0  # points that we wanted over the best of them
RATES = "photographs-rates.json"


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
    return f"flickr8k-{row.query}" if row.series.startswith("flickr8k-") else row.series


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
        return sorted({row_of(cell) for cell in self.cells}, key=_place)

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


def _place(row: str) -> tuple[int, str]:
    return ORDER.index(row) if row in ORDER else len(ORDER), row


def streams(cells: Sequence[Cell], series: str) -> list[Stream]:
    """Those of a series, model by model."""
    found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in of_series(cells, series):
        found[cell.model, stream_of(cell)].append(cell)
    made = [Stream(series, *key, tuple(own)) for key, own in found.items()]
    return sorted(made, key=lambda stream: stream.model)


def recalls(some: Sequence[Stream], name: str = "recall@1") -> str:
    """A row per model and method, a column per stream; BM25 has no model."""
    columns = list(dict.fromkeys(stream.name for stream in some))
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for stream in some:
        for row in stream.rows:
            model = "none" if row in ("bm25", "spelling+bm25") else stream.model
            found[model, row][stream.name] = f"{stream.measure(row, name):.1f}"
    rows = [
        [model, row, *(own.get(column, "") for column in columns)]
        for (model, row), own in sorted(
            found.items(), key=lambda item: (item[0][0], _place(item[0][1]))
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
    """The default against others: a row per model and stream, a column per other."""
    others = [
        other
        for other in (*BASES, *OTHERS)
        if any({"default", other} <= set(stream.rows) for stream in some)
    ]
    rows = [
        [
            stream.model,
            stream.name,
            f"{stream.queries:,}",
            *(told(stream.difference("default", other, name)) for other in others),
        ]
        for stream in some
        if "default" in stream.rows
    ]
    head = ["model", "stream", "queries", *(f"against `{other}`" for other in others)]
    return table(rows, head) if rows else NOT_RUN


def all_differences(some: Iterable[Stream]) -> str:
    """Every two rows of every stream, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    places = ["set", "model", "stream", "row", "against", "metric"]
    writer.writerow([*places, "points", "low", "high", "beyond chance"])
    for stream in some:
        for (other, row), name in product(combinations(stream.rows, 2), METRICS):
            one = stream.difference(row, other, name)
            assert one is not None
            figures = [f"{value:.2f}" for value in (one.points, *one.interval)]
            place = [stream.series, stream.model, stream.name, row, other, name]
            writer.writerow([*place, *figures, "yes" if one.beyond_chance else "no"])
    return text.getvalue()


def losses(some: Sequence[Stream]) -> str:
    """The streams on which ours is below a base or a published method, the worst first."""
    lost = []
    for stream in some:
        for ours in OURS:
            for base in (*BASES, *OTHERS):
                one = stream.difference(ours, base)
                if one is not None and _is_loss(one) and (base in BASES or ours == "default"):
                    place = [SERIES[stream.series], stream.model, stream.name, f"`{ours}`"]
                    lost.append((one.points, [*place, f"`{base}`", told(one)]))
    if lost:
        head = ["set", "model", "stream", "row", "against", "points"]
        return table([row for _, row in sorted(lost)], head)
    run = any(row in OURS for stream in some for row in stream.rows)
    return "None in what was run." if run else "Our default was not run."


def _is_loss(one: Difference) -> bool:
    return one.points < -NEAR or (one.points < 0 and one.beyond_chance)


def meaning(some: Sequence[Stream]) -> str:
    """What the AWS set says to a user, in three sentences."""
    own = [stream for stream in some if stream.series == "aws"]
    found = [*_without_typos(own), *_with_typos(own), *_by_hubs(own)]
    return "\n".join(f"- {sentence}" for sentence in found) or "Our default was not run."


def _without_typos(own: Sequence[Stream]) -> Iterator[str]:
    """What the default gives to queries that are spelt correctly."""
    some = [stream for stream in own if not stream.name.startswith(("typos", "half"))]
    against = _against_frozen(some)
    if against:
        models = len({stream.model for stream in some if "default" in stream.rows})
        pays = np.mean([one.points for one in against]) > 0
        advice = "Turn it on for" if pays else "Do not turn it on for"
        yield (
            f"**{advice} queries without typos.** On AWS documentation, with "
            f"{_counted(models, 'encoder')}, the default session's recall@1 {_told_of(against)}."
        )


def _with_typos(own: Sequence[Stream]) -> Iterator[str]:
    """What the default gives to misspelt queries, and what correcting them first does."""
    against = _against_frozen([stream for stream in own if stream.name.startswith("typos")])
    some = [stream for stream in own if stream.name == MISSPELT and "default" in stream.rows]
    names = [
        name
        for name in ("frozen", "default", "spelling+frozen", "spelling+default")
        if some and all(name in stream.rows for stream in some)
    ]
    if against and any(name.startswith("spelling") for name in names):
        means = {name: np.mean([stream.measure(name) for stream in some]) for name in names}
        figures = ", ".join(f"`{name}` {value:.1f} %" for name, value in means.items())
        yield (
            "**Correct the spelling of misspelt queries before you adapt.** The default alone "
            f"{_told_of(against)}. Recall@1 with {MISSPELT}, mean of "
            f"{_counted(len(some), 'encoder')}: {figures}."
        )


def _by_hubs(own: Sequence[Stream]) -> Iterator[str]:
    """How much of the gain hub correction gives alone."""
    some = [stream for stream in own if {"default", *BASES} <= set(stream.rows)]
    if some:
        hubs, whole = (
            np.mean([stream.measure(row) - stream.measure("frozen") for stream in some])
            for row in ("frozen+hubs", "default")
        )
        yield (
            "**If you cannot touch the encoder, use hub correction.** Over all these streams it "
            f"gives {hubs:+.1f} points by itself, the default {whole:+.1f}. It needs no "
            "gradients and works on vectors alone (`qs.Vectors`)."
        )


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
    rows = sorted(set.intersection(*(set(stream.rows) for stream in shifted)), key=_place)
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
    found = [one for one in (stream.difference(row, other) for stream in some) if one is not None]
    draws = np.mean([one.draws for one in found], axis=0)
    return Difference(float(np.mean([one.points for one in found])), draws)


def photograph_rates(kept: Path) -> str:
    """Recall@1 on Flickr8k's validation part, by what asks, row and rate."""
    if not (kept / RATES).exists():
        return NOT_RUN
    found = json.loads((kept / RATES).read_text(encoding="utf-8"))
    tried = {rate for own in found.values() for by in own.values() for rate in by}
    columns = sorted(tried, key=float)
    asks = {"image": "photographs", "text": "captions"}
    rows = [
        [asks[query], row, *(f"{by[rate]:.1f}" if rate in by else "" for rate in columns)]
        for query, own in sorted(found.items())
        for row, by in sorted(own.items())
    ]
    return table(rows, ["queries", "row", *columns])


def _against_frozen(some: Sequence[Stream]) -> list[Difference]:
    found = [stream.difference("default", "frozen") for stream in some]
    return [one for one in found if one is not None]


def _told_of(against: Sequence[Difference]) -> str:
    """Such as "is +6.9 points against the encoder alone, ..."."""
    above = sum(one.points > 0 and one.beyond_chance for one in against)
    below = sum(one.points < 0 and one.beyond_chance for one in against)
    mean = np.mean([one.points for one in against])
    return (
        f"is {mean:+.1f} points against the encoder alone on average of "
        f"{_counted(len(against), 'stream')}: above it beyond chance in {above}, below it beyond "
        f"chance in {below}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def rates(cells: Sequence[Cell]) -> str:
    """Mean recall at 1 on the development streams, by method and learning rate."""
    found = means(cells)
    columns = sorted({rate for own in found.values() for rate in own})
    rows = [
        [model, row, *(f"{own[rate]:.1f}" if rate in own else "" for rate in columns)]
        for (model, row), own in sorted(found.items())
    ]
    return table(rows, ["model", "row", *(f"{rate:g}" for rate in columns)]) if rows else NOT_RUN


def page(cells: Sequence[Cell], some: Sequence[Stream]) -> str:
    """The page of the real sets."""
    parts = {"meaning": meaning(some), "losses": losses(some), "rates": rates(cells)}
    parts["photographs"] = photographs(some)
    parts["photograph_rates"] = photograph_rates(RESULTS / "real")
    parts["other_scripts"] = OTHER_SCRIPTS.read_text(encoding="utf-8").strip()
    for series in SERIES:
        own = [stream for stream in some if stream.series == series]
        name = series.replace("-", "_")
        parts[name] = recalls(own)
        parts[f"{name}_ndcg"] = recalls(own, "ndcg@10")
        parts[f"{name}_differences"] = differences(own)
        parts[f"{name}_ndcg_differences"] = differences(own, "ndcg@10")
    return TEMPLATE.read_text(encoding="utf-8").format(**parts)


def main(runs: Sequence[Path]) -> None:
    cells = keep(runs, RESULTS / "real")
    some = [stream for series in SERIES for stream in streams(cells, series)]
    (RESULTS / "real.md").write_text(page(cells, some), encoding="utf-8")
    (RESULTS / "real" / DIFFERENCES).write_text(all_differences(some), encoding="utf-8")
    print(f"{len(cells)} cells in {RESULTS / 'real'}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
