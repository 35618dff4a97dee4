"""What is run beside `queryshift run`: the grid, and streams that mix or change their shift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from queryshift.lab.corruptions import Corruption
from queryshift.lab.datasets.tangram import CAPTIONS
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation import streams
from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS, Benchmark

from .dev_shifts import dev_shift

RATES, TEMPERATURES = (1e-4, 3e-4, 1e-3, 3e-3), (0.01, 0.02, 0.05)
TUNED = (
    "tent",
    "pl",
    "shot",
    "eata",
    "sar",
    "read",
    "come",
    "tsa",
    "tcr",
    "rest",
    "rest+decoupled",
)
DEFAULT = "default"  # a session without a method; its temperature is each batch's own
GUARDED = "rest, guarded"  # by a guard that knows ordinary queries
CAPTION = "caption:"  # one caption of each scene, clean
DEV_STREAMS = ("0", "1", "2", "mixed")
GridPoint = tuple[float, float | None]  # learning rate and temperature


@dataclass(frozen=True)
class Part:
    """A stretch of a stream: which queries, under which shift, and whether they are adapted to."""

    shift: str = "clean"
    severity: int = 3
    first: int = 0
    last: int = 2000
    adapt: bool = True


@dataclass(frozen=True)
class Unit:
    """One stream; every method goes through it in a session of its own."""

    name: str  # what it is for
    task: str
    parts: tuple[Part, ...]
    seed: int
    methods: tuple[str, ...]
    look: str = "plain"
    split: str = "test"
    watch_angle: bool = False
    grid: tuple[GridPoint, ...] = ()  # what to try

    @property
    def row(self) -> Benchmark:
        """The benchmark whose settings hold."""
        return BENCHMARKS[f"tangram-o-{self.task}"]

    @property
    def key(self) -> str:
        parts = "|".join(
            f"{p.shift}@{p.severity}[{p.first}:{p.last}]{'' if p.adapt else 'x'}"
            for p in self.parts
        )
        return (
            f"{self.name}/{self.task}/{self.look}/{parts}/{self.seed}/batches of {self.row.batch}"
        )

    def about(self) -> dict[str, Any]:
        kept = asdict(self)
        return {k: kept[k] for k in ("name", "task", "seed", "look", "parts")}


def grid(methods: Sequence[str] = TUNED, rates: Sequence[float] = RATES) -> Iterator[Unit]:
    """One seed of the development world, per task and method: four shifts, and no shift."""
    for task in TASKS:
        shifted = [Part(f"dev:{stream}", 3, 0, 1000) for stream in DEV_STREAMS]
        for part in (*shifted, *_clean(task)):
            for method in (*methods, "frozen"):
                points = _points(method, rates)
                yield Unit("grid", task, (part,), 0, (method,), split="dev", grid=points)


def _points(method: str, rates: Sequence[float]) -> tuple[GridPoint, ...]:
    if method == "frozen":
        return ((rates[0], TEMPERATURES[0]),)
    own: tuple[float | None, ...] = (None,) if method == DEFAULT else TEMPERATURES
    return tuple(product(rates, own))


def _clean(task: str) -> list[Part]:
    """All clean queries of a task: 2,000, and of text five times as many."""
    if task == "text":
        return [Part(f"{CAPTION}{offset}") for offset in range(CAPTIONS)]
    return [Part()]


def mixtures(seeds: tuple[int, ...] = (0, 1, 2)) -> Iterator[Unit]:
    """Streams that are no benchmark's, the first seed whole before the second begins."""
    for seed, task in product(seeds, TASKS):
        yield from _rows_that_decide(task, seed)
        if seed == 0:
            yield from _guarded(task)
        if task == "text":
            yield from _captions(seed)
        if task in ("image", "text"):
            yield from _angles(task, seed)


def _rows_that_decide(task: str, seed: int) -> Iterator[Unit]:
    """A tenth of clean traffic shifted, shifts one after another, and forgetting."""
    few = ("frozen", "tent", "tcr", "rest", "rest+decoupled")
    first, *_, last = shifts_of(task)
    yield Unit("clean", task, (Part(),), seed, (GUARDED,))
    yield Unit("tenth", task, (Part(f"tenth:{first}"),), seed, (*few, GUARDED))
    parts = (Part(first, 3, 0, 700), Part("clean", 3, 700, 1400), Part(last, 3, 1400, 2000))
    yield Unit("sequence", task, parts, seed, (*few, GUARDED))
    after = (Part("diverse"), Part("clean", adapt=False))
    yield Unit("forgetting", task, after, seed, few)


def _captions(seed: int) -> Iterator[Unit]:
    """Clean text with all 10,000 captions, one of each scene in a stream."""
    for part in _clean("text"):
        methods = ("frozen", "rest", "rest+decoupled", GUARDED)
        yield Unit("captions", "text", (part,), seed, methods)


def _guarded(task: str) -> Iterator[Unit]:
    """Every shift of a task by itself: what a guard that knows ordinary queries costs."""
    for shift in shifts_of(task):
        yield Unit("guarded", task, (Part(shift),), 0, (GUARDED,))


def _angles(task: str, seed: int) -> Iterator[Unit]:
    """The paper's table on gradient decoupling."""
    decoupling = ("tent", "tent+decoupled", "rest", "rest+decoupled")
    yield Unit("angles", task, (Part("diverse"),), seed, decoupling, watch_angle=True)
    yield Unit("angles", task, (Part(),), seed, decoupling, look="products", watch_angle=True)


def shifts_of(task: str) -> list[str]:
    """Those of a task's online rows that were run: nothing is translated here."""
    row = BENCHMARKS[f"tangram-o-{task}"]
    return [shift for shift in row.shifts if not streams.needs_translator(row, shift)]


def is_clean(shift: str) -> bool:
    """Whether a part's queries are as they are."""
    return shift == "clean" or shift.startswith(CAPTION)


def corruption_of(task: str, shift: str) -> Corruption | None:
    """The corruption a part's shift stands for; None for clean queries."""
    if is_clean(shift):
        return None
    if shift.startswith("dev:"):
        return dev_shift(task, shift.removeprefix("dev:"))
    if shift == "diverse":
        return streams.corruption_of(BENCHMARKS[f"tangram-d-{task}"], AS_IT_IS)
    return streams.corruption_of(BENCHMARKS[f"tangram-o-{task}"], shift)
