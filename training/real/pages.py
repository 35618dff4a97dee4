"""Keep what was run on the real sets, and write docs/results/real.md from all that is kept.

python -m training.real.pages [RUNS ...]
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.rank_metrics import metric
from queryshift.lab.evaluation.results import Cell, encode, latest, read_folder
from queryshift.lab.evaluation.significance import draw_seeds, resampled_means
from training.comparison.lines import table
from training.comparison.store import lessened
from training.photographs.report import DRAWS, Difference

TEMPLATE = Path(__file__).with_name("page.md")
RESULTS = Path("docs") / "results"
SERIES = ("aws", "msmarco", "pacs", "esc50")
OURS, BASES, OTHERS = ("default", "vectors"), ("frozen", "frozen+hubs"), ("rest", "tcr", "shot")
SEVERAL = ("msmarco", "aws-duplicates")  # whose nDCG counts several right answers
MISSPELT = "typos 10 %"
NEAR = -0.5  # points below a base that still count as level
RATE = re.compile(r":lr=[0-9.e-]+")
Key = tuple[str, str]  # model, stream


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
    """Best ranks alone, but where several right answers are counted."""
    return cell if cell.benchmark.startswith(SEVERAL) else lessened(cell)


def stream_of(cell: Cell) -> str:
    """Such as "typos 10 %", "sketch" or "clean"."""
    way = cell.benchmark.removeprefix(BENCHMARKS[cell.benchmark].series).strip("-")
    if cell.shift == "typos":
        return f"typos {5 * cell.severity} %"
    return cell.shift.replace("_", " ") if way == "noisy" else way.replace("_", " ")


def row_of(cell: Cell) -> str:
    """A method without its rate."""
    return RATE.sub("", cell.method)


def of_series(cells: Iterable[Cell], series: str) -> list[Cell]:
    """The cells of a test series, in the order of its streams."""
    order = list(BENCHMARKS)
    own = [cell for cell in cells if BENCHMARKS[cell.benchmark].series == series]
    return sorted(own, key=lambda cell: (order.index(cell.benchmark), cell.shift, cell.severity))


def recalls(cells: Sequence[Cell], name: str) -> str:
    """A row per model and method, a column per stream."""
    streams = list(dict.fromkeys(map(stream_of, cells)))
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        found[_model(cell), row_of(cell)][stream_of(cell)].append(cell.measure(name))
    rows = [
        [model, method, *(f"{np.mean(own[s]):.1f}" if own[s] else "" for s in streams)]
        for (model, method), own in sorted(found.items(), key=lambda item: _place(*item[0]))
    ]
    return table(rows, ["model", "row", *streams]) if rows else "Not run yet."


def _model(cell: Cell) -> str:
    return "none" if cell.method in ("bm25", "spelling+bm25") else cell.model


def _place(model: str, method: str) -> tuple[str, int, str]:
    known = [*BASES, "vectors", "default", *OTHERS]
    return model, known.index(method) if method in known else len(known), method


def shares(cells: Iterable[Cell], method: str, key: Key) -> dict[int, np.ndarray]:
    """By seed, sums of recall at 1 and counts (2, G) of each query, which may repeat."""
    found = {}
    for cell in cells:
        if (row_of(cell), cell.model, stream_of(cell)) == (method, *key):
            own = metric("recall@1").of_each(cell.ranks)
            groups = np.asarray(cell.settings.get("groups", range(len(own))))
            found[cell.seed] = np.stack([np.bincount(groups, own), np.bincount(groups)])
    return found


def difference(cells: Sequence[Cell], ours: str, other: str, key: Key) -> Difference | None:
    """Ours against another on one stream, over the seeds that both were run with.

    Resamples draw a query with all its repetitions; each counts as often as it was asked.
    """
    own, others = (shares(cells, method, key) for method in (ours, other))
    seeds = sorted(own.keys() & others.keys())
    if not seeds:
        return None
    gained = np.stack([own[seed][0] - others[seed][0] for seed in seeds])
    asked = np.stack([own[seed][1] for seed in seeds])
    rng = np.random.default_rng(0)
    weights = draw_seeds(len(seeds), DRAWS, rng)
    drawn = resampled_means(np.stack([gained, asked]), weights, rng)
    return Difference(float(gained.sum() / asked.sum()), drawn[:, 0] / drawn[:, 1])


def pairs(
    cells: Sequence[Cell], firsts: Sequence[str], others: Sequence[str]
) -> Iterator[tuple[Key, str, str, Difference]]:
    """Each of the first rows against each of the others, on every stream of every model."""
    for key in dict.fromkeys((cell.model, stream_of(cell)) for cell in cells):
        for first, other in product(firsts, others):
            found = None if first == other else difference(cells, first, other, key)
            if found is not None:
                yield key, first, other, found


def differences(cells: Sequence[Cell]) -> str:
    """A row per model, stream and one of ours or hub correction alone, a column per other."""
    columns = (*BASES, *OTHERS)
    found: dict[tuple[str, str, str], dict[str, Difference]] = defaultdict(dict)
    for key, first, other, one in pairs(cells, (*OURS, "frozen+hubs"), columns):
        found[(*key, first)][other] = one
    rows = [[*key, *(str(own.get(other, "")) for other in columns)] for key, own in found.items()]
    head = ["model", "stream", "row", *(f"against {other}" for other in columns)]
    return table(rows, head) if rows else "Not run yet."


def losses(cells: Sequence[Cell]) -> str:
    """The streams on which ours is below a base, the worst first."""
    lost = []
    for series in SERIES:
        for (model, stream), ours, base, one in pairs(of_series(cells, series), OURS, BASES):
            below = one.points < NEAR or (one.points < 0 and one.beyond_chance)
            if below and (base == "frozen" or one.points < NEAR):
                lost.append((one.points, [series, model, stream, ours, base, str(one)]))
    if lost:
        head = ["set", "model", "stream", "ours", "against", "difference"]
        return table([row for _, row in sorted(lost)], head)
    run = any(row_of(cell) in OURS for cell in cells)
    return "None in what was run." if run else "Our default was not run yet."


def meaning(cells: Sequence[Cell]) -> str:
    """What the numbers of the AWS set say, in sentences with counts."""
    own = of_series(cells, "aws")
    told = [_against_frozen(own, name) for name in ("frozen+hubs", *OURS)]
    if not any(row_of(cell) in OURS for cell in own):
        told.append("Our default was not run yet.")
    return "\n".join(f"**{sentence}**" for sentence in [*told, *_by_spelling(own)] if sentence)


def _against_frozen(cells: Sequence[Cell], name: str) -> str:
    some = [one for *_, one in pairs(cells, (name,), ("frozen",))]
    if not some:
        return ""
    above = sum(one.points > 0 and one.beyond_chance for one in some)
    below = sum(one.points < 0 and one.beyond_chance for one in some)
    mean = np.mean([one.points for one in some])
    return (
        f"On the AWS set `{name}` is above the unadapted encoder beyond chance in {above} of "
        f"{len(some)} streams and below it in {below}, by {mean:+.1f} points on average."
    )


def _by_spelling(cells: Sequence[Cell]) -> Iterator[str]:
    """What correcting the spelling does to misspelt queries, beside the encoder and ours."""
    for model in dict.fromkeys(cell.model for cell in cells):
        found = {
            row_of(cell): cell.measure("recall@1")
            for cell in cells
            if (cell.model, stream_of(cell)) == (model, MISSPELT)
        }
        if {"frozen", "spelling+frozen"} <= found.keys():
            names = [name for name in ("frozen", "frozen+hubs", *OURS) if name in found]
            others = ", ".join(f"`{name}` {found[name]:.1f}" for name in names)
            yield (
                f"Correct the spelling first: with {MISSPELT} {model} finds "
                f"{found['spelling+frozen']:.1f} % so; without, {others}."
            )


def page(cells: Sequence[Cell]) -> str:
    """The page of the real sets."""
    parts = {"meaning": meaning(cells), "losses": losses(cells)}
    for series in SERIES:
        own = of_series(cells, series)
        parts[series] = recalls(own, "recall@1")
        parts[f"{series}_ndcg"] = recalls(own, "ndcg@10")
        parts[f"{series}_differences"] = differences(own)
    return TEMPLATE.read_text(encoding="utf-8").format(**parts)


def main(runs: Sequence[Path]) -> None:
    cells = keep(runs, RESULTS / "real")
    (RESULTS / "real.md").write_text(page(cells), encoding="utf-8")
    print(f"{len(cells)} cells in {RESULTS / 'real'}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
