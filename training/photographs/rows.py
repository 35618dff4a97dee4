"""Rows of Flickr8k for docs/results/real.md: `python -m training.photographs.rows val|test`.

`val` tries three learning rates of each published method on one shift of photographs and one of
captions; `test` runs "METHOD:lr=val" at the best of them, one for photographs and one for captions.
A line per finished cell; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS
from queryshift.lab.evaluation.results import Cell, read_folder
from queryshift.methods.specs import DEFAULT
from training.photographs.measure import STREAMS
from training.real import measure
from training.real.rates import RATE, row_of

MODEL = "photographs=training.photographs.heads:make"
RATES = (3e-4, 1e-3, 3e-3)
BEST = ":lr=val"
METHODS = (
    *("frozen", "frozen+hubs", DEFAULT, "shot:lr=val", "rest:lr=val"),
    *("shot:lr=val+hubs", "tcr:lr=val"),
)
SHIFTS = {
    "val": ("gaussian_noise", "character_swap"),
    "test": (
        *(AS_IT_IS, "gaussian_noise", "motion_blur", "fog", "jpeg"),
        *("character_swap", "ocr", "word_deletion"),
    ),
}
ASKED = {"val": 192, "test": 500}  # of each stream, drawn at random
CHOSEN = "photographs-rates.json"  # by query and row, recall@1 at each rate

Means = Mapping[str, Mapping[str, Mapping[str, float]]]


def streams(part: str, model: str = MODEL, only: str = "") -> Iterator[measure.Stream]:
    """The streams of a part, those whose name has `only`: a modality or a shift."""
    for name, shift, severity in STREAMS:
        row = BENCHMARKS[name if part == "test" else name.replace("flickr8k", "flickr8k-dev")]
        if only in f"{row.name}-{shift}" and shift in SHIFTS[part] and not row.diverse:
            yield measure.Stream(row, shift, severity, model)


def means(cells: Iterable[Cell]) -> Means:
    """Recall@1 on the validation part, by modality of the queries, row and rate."""
    found: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        rate = RATE.search(cell.method)
        if rate:
            own = found[BENCHMARKS[cell.benchmark].query][row_of(cell)]
            own[rate[1]] = round(cell.measure("recall@1"), 2)
    return found


def best(method: str, query: str, by_rate: Means) -> str:
    """The method; "shot:lr=val+hubs" with the rate that was best for SHOT."""
    if BEST not in method:
        return method
    own = by_rate[query][method.partition(BEST)[0]]
    return method.replace(BEST, f":lr={max(own, key=lambda rate: own[rate])}")


def left(options: argparse.Namespace, out: Path, by_rate: Means) -> Iterator[measure.Work]:
    """The cells that are not there yet, the most important first."""
    done = {cell.key for cell in _cells(out)}
    tuned = options.part == "val"
    named = [name for name in options.methods if name.endswith(BEST)] if tuned else options.methods
    for name in named:
        for stream in streams(options.part, options.model, options.only):
            tries = [name.replace(BEST, f":lr={rate:g}") for rate in RATES] if tuned else [name]
            for method in (best(one, stream.benchmark.query, by_rate) for one in tries):
                if stream.key(0, method) not in done:
                    yield measure.Work(stream, 0, method, options)


def _cells(out: Path) -> list[Cell]:
    return list(read_folder(out).cells) if any(out.glob("*.jsonl")) else []


def main() -> None:
    options = _options()
    out, rates = options.out / options.part, options.out / CHOSEN
    out.mkdir(parents=True, exist_ok=True)
    by_rate = json.loads(rates.read_text(encoding="utf-8")) if rates.exists() else {}
    measure.keep(map(measure.measured, left(options, out, by_rate)), out)
    if options.part == "val":
        found = json.dumps(means(_cells(out)), indent=1, sort_keys=True)
        rates.write_text(f"{found}\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("val", "test"))
    parser.add_argument("--root", type=Path, required=True, help="Flickr8k's files")
    parser.add_argument("--model", default=MODEL, metavar="LABEL=PLACE")
    parser.add_argument("--out", type=Path, default=Path("runs") / "photographs")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--only", default="", help="streams whose name has this: image, text-ocr")
    parser.add_argument("--queries", type=int, help="of each stream; else 192 or 500")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after these")
    options = parser.parse_args()
    options.queries = options.queries or ASKED[options.part]
    options.kept = options.out / "kept"
    options.until = time.time() + options.seconds
    return options


if __name__ == "__main__":
    main()
