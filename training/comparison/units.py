"""What is run: streams of the tangram world, each through several methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from queryshift import corruptions as shifts
from queryshift.datasets.tangram import TASKS
from queryshift.methods import METHODS, REST, Decoupled, Method, Tent

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
ALL = tuple(METHODS)
DEV_STREAMS = ("0", "1", "2", "mixed")
SPARE = {"sentence": "formal"}  # back-translation needs a model that is not here


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
    grid: tuple[tuple[float, float], ...] = ()  # learning rates and temperatures to try

    @property
    def key(self) -> str:
        parts = "|".join(
            f"{p.shift}@{p.severity}[{p.first}:{p.last}]{'' if p.adapt else 'x'}"
            for p in self.parts
        )
        return f"{self.name}/{self.task}/{self.look}/{parts}/{self.seed}"

    def about(self) -> dict[str, Any]:
        kept = asdict(self)
        return {k: kept[k] for k in ("name", "task", "seed", "look", "parts")}


def grid() -> Iterator[Unit]:
    """One seed, four streams of 1,000 queries of the development world, per task and method."""
    points = tuple(product(RATES, TEMPERATURES))
    for stream, task, method in product(DEV_STREAMS, TASKS, TUNED):
        part = Part(f"dev:{stream}", 3, 0, 1000)
        yield Unit("grid", task, (part,), 0, (method,), split="dev", grid=points)


def named_shifts(task: str) -> list[str]:
    """Every reported shift of a task."""
    if task == "composed":
        return list(shifts.COMBINATIONS["image+text"])
    names = [name for family in shifts.NAMES[task].values() for name in family]
    return [name for name in names if name != "backtranslation"]


def comparison(seeds: tuple[int, ...] = (0, 1, 2)) -> Iterator[Unit]:
    """Everything that is reported, the first seed whole before the second begins."""
    for seed in seeds:
        yield from _rows_that_decide(seed)
        for severity, task in product((3, 5), TASKS):
            diverse = (Part("diverse", severity),)
            yield Unit("diverse", task, diverse, seed, (*ALL, "rest+decoupled"))
        yield from _ablations(seed)
        for severity, task in product((3, 5), TASKS):
            for shift in named_shifts(task):
                yield Unit("online", task, (Part(shift, severity),), seed, ALL)


def _rows_that_decide(seed: int) -> Iterator[Unit]:
    """Clean traffic, a tenth of it shifted, shifts one after another, and forgetting."""
    few = ("frozen", "tent", "tcr", "rest", "rest+decoupled")
    for task in TASKS:
        first, *_, last = named_shifts(task)
        yield Unit("clean", task, (Part(),), seed, (*ALL, "rest+decoupled"))
        yield Unit("tenth", task, (Part(f"tenth:{first}"),), seed, few)
        parts = (Part(first, 3, 0, 700), Part("clean", 3, 700, 1400), Part(last, 3, 1400, 2000))
        yield Unit("sequence", task, parts, seed, few)
        after = (Part("diverse"), Part("clean", adapt=False))
        yield Unit("forgetting", task, after, seed, few)
    for look, task in product(("crayon", "products"), ("image", "text")):
        yield Unit(look, task, (Part(),), seed, (*ALL, "rest+decoupled"), look=look)


def _ablations(seed: int) -> Iterator[Unit]:
    """The paper's two tables: loss terms, and gradient decoupling with its angles."""
    for task, shift in product(("image", "text"), (0, 1)):
        name = {"image": ("gaussian_noise", "fog"), "text": ("ocr", "character_swap")}[task][shift]
        yield Unit("terms", task, (Part(name),), seed, tuple(TERMS))
    for task in ("image", "text"):
        decoupling = ("tent", "tent+decoupled", "rest", "rest+decoupled")
        yield Unit("angles", task, (Part("diverse"),), seed, decoupling, watch_angle=True)
        yield Unit("angles", task, (Part(),), seed, decoupling, look="products", watch_angle=True)


OFF = {"uniformity": False, "gap": False, "entropy": False, "mining": False}
TERMS = {
    "rest:U": {"uniformity": True},
    "rest:C": {"entropy": True, "mining": True},
    "rest:G": {"gap": True},
    "rest:UC": {"uniformity": True, "entropy": True, "mining": True},
    "rest:UG": {"uniformity": True, "gap": True},
    "rest:CG": {"entropy": True, "mining": True, "gap": True},
    "rest:UCG": {"uniformity": True, "entropy": True, "mining": True, "gap": True},
}


def method_of(spec: str, chosen: dict[str, dict[str, float]]) -> Method:
    """The method a name stands for, with the learning rate and temperature chosen for it."""
    if spec in TERMS:
        return REST(**{**OFF, **TERMS[spec]}, **chosen.get("rest", {}))
    if spec == "rest+decoupled":
        return REST(decouple=True, **chosen.get(spec, {}))
    if spec == "tent+decoupled":
        return Decoupled(Tent(**chosen.get("tent", {})))
    return METHODS[spec](**chosen.get(spec, {}))


def corruption_of(task: str, shift: str) -> Any:
    """The corruption a part's shift stands for; None for clean queries."""
    query = TASKS[task][1]
    if shift == "clean":
        return None
    if shift.startswith("dev:"):
        return dev_shift(task, shift.removeprefix("dev:"))
    if shift == "diverse":
        return shifts.one_of(*(corruption_of(task, name) for name in named_shifts(task)))
    if query == "image+text":
        image, text = shift.split("+")
        pair = (
            shifts.REPRESENTATIVE["image"][image],
            SPARE.get(text, shifts.REPRESENTATIVE["text"][text]),
        )
        return shifts.both(shifts.find("image", pair[0]), shifts.find("text", pair[1]))
    return shifts.find(query, shift)
