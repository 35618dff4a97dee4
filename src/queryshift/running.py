"""Runs that survive: every finished cell is on disk at once, and is not run again."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from .benchmarks import Benchmark
from .cells import Task, method_of, work
from .corruptions.files.parallel import as_finished
from .errors import BadInput
from .ground import Ground, prepare
from .plans import Plan
from .progress import counting
from .report import check_base
from .results import Cell, read_lines, write_line

Watch = Callable[[int], None]  # told how many more queries were answered
Execute = Callable[[Ground, Sequence[Task], Watch], Iterator[Cell]]


@dataclass(frozen=True)
class Ran:
    """What became of a plan."""

    row: Benchmark
    cells: tuple[Cell, ...]  # all that were wanted, also those of earlier runs
    kept: int  # of them, from earlier runs
    notes: tuple[str, ...]


def run_all(
    plans: Sequence[Plan],
    out: Path,
    execute: Execute | None = None,
    tell: Callable[[Cell], None] = lambda cell: None,
    check: bool = False,
) -> list[Ran]:
    """Run all plans, and `check` the frozen model first where the paper says what it gives."""
    execute = execute or in_turn
    notes: list[str] = []
    if check:
        natural = [replace(one, methods=("frozen",)) for one in plans if not one.row.corrupted]
        frozen = [cell for one in natural for cell in run_plan(one, out, execute, tell).cells]
        notes = [f"checked: {one}" for one in check_base(frozen)]
        notes = notes or ["nothing to check: the paper's corruptions were unseeded."]
    ran = [run_plan(one, out, execute, tell) for one in plans]
    return [replace(ran[0], notes=(*notes, *ran[0].notes)), *ran[1:]]


def run_plan(plan: Plan, out: Path, execute: Execute, tell: Callable[[Cell], None]) -> Ran:
    """Run the cells of a plan that are not in `out` yet; `tell` gets each as it is finished."""
    path = out / f"{plan.row.name}.jsonl"
    with locked(out):
        lines = read_lines(path) if path.exists() else None
        earlier, problems = lines or ([], [])
        ground = prepare(plan.row, plan.choices, out / "galleries")
        ours = {_place(cell): cell for cell in earlier if cell.model == ground.model}
        _refuse_other_settings(ground, plan.methods, ours.values(), path)
        tasks = plan.tasks()
        left = [task for task in tasks if task not in ours]
        with counting(f"running {plan.row.name}", len(left) * ground.queries) as watch:
            for cell in execute(ground, left, watch) if left else ():
                write_line(path, cell)
                ours[_place(cell)] = cell
                tell(cell)
    notes = (*problems, *plan.notes(), *_skipped(ground))
    return Ran(plan.row, tuple(ours[task] for task in tasks), len(tasks) - len(left), notes)


def in_turn(ground: Ground, tasks: Sequence[Task], watch: Watch) -> Iterator[Cell]:
    """The cells one after another, in this process."""
    return (work(ground, task, watch) for task in tasks)


def in_processes(jobs: int) -> Execute:
    """The cells in so many processes, each with one thread, as they finish."""

    def execute(ground: Ground, tasks: Sequence[Task], watch: Watch) -> Iterator[Cell]:
        set_up = partial(_hold, pickle.dumps(ground))
        for cell in as_finished(_work_here, tasks, jobs, set_up):
            watch(cell.queries)
            yield cell

    return execute


_held: list[Ground] = []  # in a worker process, the ground it was started for


def _hold(ground: bytes) -> None:
    import torch

    torch.set_num_threads(1)
    _held[:] = [pickle.loads(ground)]


def _work_here(task: Task) -> Cell:
    return work(_held[0], task)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Be the only run that writes to a folder; the system lifts the lock however we end."""
    out.mkdir(parents=True, exist_ok=True)
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


def _place(cell: Cell) -> Task:
    return Task(cell.shift, cell.severity, cell.seed, cell.method)


def _refuse_other_settings(
    ground: Ground, methods: Sequence[str], earlier: Iterable[Cell], path: Path
) -> None:
    """One table, one set of settings: numbers that cannot be compared do not share a file."""
    encoder = ground.encoder()
    wanted = {name: asdict(method_of(name, ground.row).resolved(encoder)) for name in methods}
    for cell in earlier:
        ours: dict[str, Any] = dict(ground.settings)
        if cell.method in wanted:
            ours["method"] = wanted[cell.method]
        other = "; ".join(_differences(cell.settings, json.loads(json.dumps(ours))))
        if other:
            raise BadInput(
                f'"{path}" has cells with other settings: {other}. Ask as before, or choose '
                "another folder."
            )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What is not as before, in words."""
    for name, value in now.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _differences(old, value)
        elif old != value:
            yield f"{name} was {old!r}, is {value!r}"


def _skipped(ground: Ground) -> list[str]:
    if not ground.skipped:
        return []
    return [f"{len(ground.skipped)} left out, unreadable: {' '.join(ground.skipped)}"]
