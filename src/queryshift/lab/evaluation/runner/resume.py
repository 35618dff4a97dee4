"""Runs that survive: every finished cell is on disk at once, and is not run again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from queryshift.errors import BadInput
from queryshift.support.progress import counting

from ..benchmark_methods import settings_of
from ..report.paper_numbers import check_base
from ..results import Cell, Lines, read_lines, write_line
from .cell_executors import Execute, in_turn
from .context import RunContext
from .plans import Plan, Task
from .prepared_benchmark import PreparedBenchmark, prepare

NAMED = 10  # things left out that a note names; the cells name all


@dataclass(frozen=True)
class Ran:
    """The results of one or several plans."""

    cells: tuple[Cell, ...]  # all that were wanted, also those of earlier runs
    kept: int  # of them, from earlier runs
    notes: tuple[str, ...] = ()  # sentences on items left out and damaged lines


def run_all(
    plans: Sequence[Plan],
    out: Path,
    execute: Execute = in_turn,
    check: bool = False,
) -> Ran:
    """Run the cells of all plans that are not in `out` yet.

    `execute` says how. With `check`, the frozen model is compared with the paper's first, and a
    difference is an error.
    """
    run = _Run(out, execute)
    with locked(out):
        notes = run.checked(plans) if check else []
        finished = [run.cells(plan) for plan in plans]
    cells = tuple(cell for some, _ in finished for cell in some)
    notes += [note for _, own in finished for note in own]
    kept = sum(cell.key not in run.fresh for cell in cells)
    return Ran(cells, kept, tuple(dict.fromkeys(notes)))


class _Run:
    """One call of `run_all`: the output folder, the executor and the context."""

    def __init__(self, out: Path, execute: Execute) -> None:
        self.out, self.execute = out, execute
        self.context = RunContext()
        self.fresh: set[tuple[object, ...]] = set()  # keys of the cells that this run finished

    def checked(self, plans: Sequence[Plan]) -> list[str]:
        """Run the frozen model on the uncorrupted rows, and compare it with the paper."""
        natural = [replace(plan, methods=("frozen",)) for plan in plans if not plan.row.corrupted]
        cells = [cell for plan in natural for cell in self.cells(plan)[0]]
        notes = [f"checked: {sentence}" for sentence in check_base(cells)]
        return notes or ["nothing to check: the paper has none of these rows without corruptions."]

    def cells(self, plan: Plan) -> tuple[list[Cell], list[str]]:
        """All cells of a plan, and notes on items left out and damaged lines."""
        path = self.out / f"{plan.row.name}.jsonl"
        earlier, problems = read_lines(path) if path.exists() else Lines([], [])
        prepared = prepare(plan.row, plan.choices, self.out / "galleries", self.context)
        done = {_task(cell): cell for cell in earlier if cell.model == prepared.model}
        methods = {
            name: settings_of(name, plan.row, self.context.encoder(prepared))
            for name in plan.methods
        }
        _refuse_other_settings(prepared, methods, done.values(), path)
        tasks = plan.tasks()
        left = [task for task in tasks if task not in done]
        with counting(f"running {plan.row.name}", len(left) * prepared.queries) as watch:
            for cell in self.execute(self.context, prepared, left, watch) if left else ():
                write_line(path, cell)
                done[_task(cell)] = cell
                self.fresh.add(cell.key)
        return [done[task] for task in tasks], [*problems, *plan.notes(), *_skipped(prepared)]


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Be the only run that writes to a folder; the system lifts the lock however we end."""
    out.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":  # has no file locks
        yield
        return
    import fcntl

    with (out / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise BadInput(
                f'another run (process {file.read().strip()}) is writing to "{out}": wait until '
                "it has ended, or choose another folder."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _task(cell: Cell) -> Task:
    return Task(cell.shift, cell.severity, cell.seed, cell.method)


def _refuse_other_settings(
    prepared: PreparedBenchmark,
    methods: Mapping[str, dict[str, Any]],
    earlier: Iterable[Cell],
    path: Path,
) -> None:
    """One table, one set of settings: numbers that cannot be compared do not share a file."""
    for cell in earlier:
        now = prepared.settings_under(cell.shift)
        if cell.method in methods:
            now["method"] = methods[cell.method]
        differences = "; ".join(_differences(cell.settings, json.loads(json.dumps(now))))
        if differences:
            raise BadInput(
                f'"{path}" has cells with other settings: {differences}. Ask as before, or choose '
                "another folder."
            )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Settings that changed, in words; settings missing from the old file are not compared."""
    for name, value in now.items():
        old = before.get(name, value)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _differences(old, value)
        elif old != value:
            yield f"{name} was {old!r}, is {value!r}"


def _skipped(prepared: PreparedBenchmark) -> list[str]:
    """A note that names the first few unreadable items."""
    skipped = prepared.skipped
    if not skipped:
        return []
    lines = [f"{len(skipped)} left out, unreadable:", *skipped[:NAMED]]
    if len(skipped) > NAMED:
        lines.append(f"and {len(skipped) - NAMED:,} more, which the cells name.")
    return ["\n  ".join(lines)]
