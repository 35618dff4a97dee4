"""Learning rates and temperatures of every method on the development world.

python -m training.comparison.grid FILE --minutes 4 --processes 14
python -m training.comparison.grid WIDER --methods pl sar --rates 1e-2 3e-2

Each finished stream and method is a line of the file; the same command continues where it stopped.
`training.comparison.choose` picks from the file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from queryshift import Gallery, Session
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, TASKS, tangram
from queryshift.lab.evaluation.benchmark_methods import hubs_of, method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, Benchmark
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.lab.tangram import captions, scenes
from queryshift.methods.specs import DEFAULT
from queryshift.models import load

from . import forked
from .dev_shifts import dev_shift
from .tables import Line

RATES, TEMPERATURES = (1e-4, 3e-4, 1e-3, 3e-3), (0.01, 0.02, 0.05)
METHODS = ("tent", "pl", "shot", "eata", "sar", "read", "come", "tsa", "tcr", "rest")
TUNED = (*METHODS, "rest+decoupled")
CLEAN, CAPTION, SHIFTED = "clean", "caption:", "dev:"
SHIFTS = tuple(f"{SHIFTED}{number}" for number in ("0", "1", "2", "mixed"))
SEVERITY, SEED = 3, 0
Point = tuple[float, float | None]  # learning rate and temperature
WORLDS: dict[str, Dataset] = {}  # filled before the workers are forked
OPTIONS: dict[str, Any] = {}


@dataclass(frozen=True)
class Stream:
    """One stream of the development world and a method, at every point to try."""

    task: str
    shift: str
    method: str
    points: tuple[Point, ...]

    @property
    def last(self) -> int:
        """How many queries there are."""
        return 2000 if is_clean(self.shift) else 1000

    @property
    def row(self) -> Benchmark:
        """The benchmark whose settings hold."""
        return BENCHMARKS[f"tangram-o-{self.task}"]

    @property
    def key(self) -> str:
        part = f"{self.shift}@{SEVERITY}[0:{self.last}]"
        return f"grid/{self.task}/plain/{part}/{SEED}/batches of {self.row.batch}"


def streams(methods: Sequence[str] = TUNED, rates: Sequence[float] = RATES) -> Iterator[Stream]:
    """Per task and method: four shifted streams, and all clean queries."""
    for task in TASKS:
        for shift in (*SHIFTS, *_clean(task)):
            for method in (*methods, "frozen"):
                yield Stream(task, shift, method, _points(method, rates))


def _points(method: str, rates: Sequence[float]) -> tuple[Point, ...]:
    if method == "frozen":
        return ((rates[0], TEMPERATURES[0]),)
    own: tuple[float | None, ...] = (None,) if method == DEFAULT else TEMPERATURES
    return tuple(product(rates, own))


def _clean(task: str) -> list[str]:
    """All clean queries of a task: 2,000, and of text five times as many."""
    return [f"{CAPTION}{offset}" for offset in range(CAPTIONS)] if task == "text" else [CLEAN]


def is_clean(shift: str) -> bool:
    """Whether a stream's queries are not shifted."""
    return shift == CLEAN or shift.startswith(CAPTION)


def queries(stream: Stream) -> list[Any]:
    """The queries of a stream."""
    if stream.shift.startswith(CAPTION):
        return _captions(int(stream.shift.removeprefix(CAPTION)))
    some = WORLDS[stream.task].asking(range(stream.last))
    name = stream.shift.removeprefix(SHIFTED)
    corruption = None if stream.shift == CLEAN else dev_shift(stream.task, name)
    return shifted(some, corruption, SEVERITY, SEED)


def _captions(offset: int) -> list[str]:
    """One caption of each scene; with no offset those that the text task asks for."""
    return [
        captions(scene)[(row + offset) % CAPTIONS] for row, scene in enumerate(scenes("dev", 2000))
    ]


@cache
def _answering(task: str) -> tuple[Any, Gallery]:
    name, query, gallery = TASKS[task]
    model = load(name, device=OPTIONS["device"], precision="float32")
    return model[query], Gallery.build(model[gallery], WORLDS[task].candidates, batch_size=500)


def _session(stream: Stream, point: Point) -> Session:
    answering, (rate, temperature) = _answering(stream.task), point
    if stream.method == DEFAULT:
        return Session(*answering, lr=rate, seed=SEED)
    method = replace(method_of(stream.method, stream.row), lr=rate, temperature=temperature)
    return Session(*answering, method, seed=SEED, guard=None, hubs=hubs_of(stream.method))


def work(stream: Stream) -> list[Line]:
    """The lines of a stream, one for each point."""
    torch.set_num_threads(1)
    asked, right = queries(stream), WORLDS[stream.task].matches[: stream.last]
    lines = []
    for point in stream.points:
        session, started = _session(stream, point), time.perf_counter()
        ranks = run(session, asked, right, SEED, stream.row.batch).ranks
        lines.append(_line(stream, session, ranks, time.perf_counter() - started))
    return lines


def _line(stream: Stream, session: Session, ranks: Tensor, seconds: float) -> Line:
    return {
        "task": stream.task,
        "parts": [{"shift": stream.shift}],
        "key": stream.key,
        "method": stream.method,
        "lr": session.method.lr,
        "temperature": session.method.temperature,
        "recall": [{k: round(100 * float((ranks <= k).double().mean()), 2) for k in (1, 5, 10)}],
        "hits": [forked.packed((ranks == 1).numpy())],
        "seconds": round(seconds, 2),
    }


def _world(task: str) -> Dataset:
    return tangram(task, "dev")


def main() -> None:
    parser = forked.parser(__doc__)
    parser.add_argument("--methods", nargs="*", default=TUNED)
    parser.add_argument("--rates", nargs="*", type=float, default=RATES)
    options = parser.parse_args()
    OPTIONS.update(vars(options))
    done = {(line["key"], line["method"]) for line in forked.finished(options.file)}
    wanted = streams(options.methods, options.rates)
    left = [s for s in wanted if s.task in options.tasks and (s.key, s.method) not in done]
    forked.run(work, left, options, WORLDS, _world)


if __name__ == "__main__":
    main()
