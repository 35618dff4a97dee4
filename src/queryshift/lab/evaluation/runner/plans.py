"""Plans of runs: a user's choices, and the cells of each benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from queryshift.errors import BadInput, check_known
from queryshift.lab.corruptions import check_severity
from queryshift.models import PUBLISHED_RERANK

from ..benchmark_methods import checked
from ..benchmarks import AS_IT_IS, PAPER, Benchmark, find
from ..corrupted_queries import TRANSLATED, CorruptionAssets, needs_translator, translates


@dataclass(frozen=True, kw_only=True)
class Choices(CorruptionAssets):
    """The model, the dataset's files, and how queries are read, corrupted and ranked."""

    model: str = ""  # empty: the row's own
    root: Path | None = None  # of the dataset's files; None: where datasets lie
    queries: int | None = None  # only the first so many; None: all
    folder: Path | None = None  # of queries corrupted beforehand
    strict: bool = False  # an unreadable item is an error
    device: str = "cpu"
    preprocessing: str = ""  # "published" or "library"; empty: as the paper did, on its rows
    matcher: bool = False  # single stream: the model's matching head re-ranks the best hits
    rerank: int | None = None  # hits to re-rank; None: as published

    def model_for(self, row: Benchmark) -> str:
        """The name of the model to load."""
        return self.model or row.model

    def preprocessing_for(self, row: Benchmark) -> str:
        """How items are read."""
        return self.preprocessing or ("published" if row.series in PAPER else "library")

    def rerank_for(self, row: Benchmark) -> int | None:
        """How many hits the matcher re-ranks; None: as many as the matcher recommends."""
        published = (many for key, many in PUBLISHED_RERANK.items() if row.dataset.startswith(key))
        return self.rerank or next(published, None)


@dataclass(frozen=True)
class Task:
    """What identifies a cell within its benchmark."""

    shift: str
    severity: int
    seed: int
    method: str  # as `queryshift.methods.specs` writes it: "rest", "tent:lr=0.001+refined"

    @property
    def stream(self) -> tuple[str, int, int]:
        """The stream's shift, severity and seed; all methods get the same queries."""
        return self.shift, self.severity, self.seed


def plans_for(name: str, plan: Plan) -> list[Plan]:
    """The plan for each row that a name stands for; a shift must be one of some row."""
    rows = find(name)
    known = tuple(dict.fromkeys(shift for row in rows for shift in row.shifts))
    for shift in plan.shifts:
        check_known(f"shift of {name}", shift, known)
    if plan.choices.noise and not any(row.query == "audio" and row.corrupted for row in rows):
        raise BadInput(f"{name} corrupts no audio, so it takes no recordings of noise.")
    chosen = [(row, tuple(name for name in plan.shifts if name in row.shifts)) for row in rows]
    return [
        replace(plan, row=row, shifts=shifts) for row, shifts in chosen if shifts or not plan.shifts
    ]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which cells of a benchmark are wanted; no shifts or severities means the row's own."""

    row: Benchmark
    methods: tuple[str, ...]  # as `queryshift.methods.specs` reads them
    seeds: tuple[int, ...] = (0,)
    shifts: tuple[str, ...] = ()
    severities: tuple[int, ...] = ()
    choices: Choices = Choices()

    def __post_init__(self) -> None:
        if self.severities and not self.row.corrupted:
            raise BadInput(f"{self.row.name} corrupts nothing, so it has no severities.")
        for severity in self.severities:
            check_severity(severity)
        methods = dict.fromkeys(checked(method, self.row) for method in self.methods)
        object.__setattr__(self, "methods", tuple(methods))
        if not self.tasks():
            raise BadInput(f"nothing is left of {self.row.name}: {' '.join(self.notes())}")

    def tasks(self) -> list[Task]:
        """The cells in order: all methods are asked the same queries, one after another."""
        shifts = [name for name in self.shifts or self.row.shifts if name not in self.untranslated]
        levels = self.severities or self.row.severities or (0,)
        return [Task(*cell) for cell in product(shifts, levels, self.seeds, self.methods)]

    @property
    def untranslated(self) -> tuple[str, ...]:
        """Shifts that are left out because nothing translates."""
        wanted = self.shifts or self.row.shifts
        missing = not (self.choices.translator or self.choices.folder)
        return tuple(name for name in wanted if missing and needs_translator(self.row, name))

    def notes(self) -> list[str]:
        """Sentences on differences from the paper's setup."""
        if self.untranslated:
            names = ", ".join(self.untranslated)
            return [f"left out for want of a translator (--translator THERE BACK): {names}."]
        if translates(self.row, AS_IT_IS) and not self.choices.translator:
            return [f"no query draws {TRANSLATED}: there is no translator."]
        return []
