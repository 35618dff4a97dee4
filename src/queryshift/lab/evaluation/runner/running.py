"""Runs that survive: every finished cell is on disk at once, and is not run again."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from queryshift.errors import BadInput
from queryshift.lab.corruptions.files.parallel import lanes
from queryshift.support.progress import counting

from ..benchmark_methods import method_of
from ..report import check_base
from ..results import Cell, Lines, read_lines, write_line
from .cells import Task, work
from .plans import Plan
from .prepared_benchmark import PreparedBenchmark, prepare

NAMED = 10  # things left out that a note names; the cells name all
Watch = Callable[[int], None]  # told how many more queries were answered
Tell = Callable[[Cell], None]
Execute = Callable[[PreparedBenchmark, Sequence[Task], Watch], Iterator[Cell]]


@dataclass(frozen=True)
class Ran:
    """What became of a plan, or of several."""

    cells: tuple[Cell, ...]  # all that were wanted, also those of earlier runs
    kept: int  # of them, from earlier runs
    notes: tuple[str, ...] = ()  # sentences on what was left out or is not as it should be


def run_all(
    plans: Sequence[Plan],
    out: Path,
    execute: Execute | None = None,
    tell: Tell = lambda cell: None,
    check: bool = False,
) -> Ran:
    """Run the cells of all plans that are not in `out` yet; `tell` gets each as it is finished.

    `execute` says how, one after another by default. With `check`, the frozen model is compared
    with the paper's first, and a difference is an error.
    """
    execute = execute or in_turn
    fresh = set()

    def told(cell: Cell) -> None:
        fresh.add(cell.key)
        tell(cell)

    with locked(out):
        notes = _check(plans, out, execute, told) if check else []
        ran = [_run(one, out, execute, told) for one in plans]
    cells = tuple(cell for some, _ in ran for cell in some)
    notes += [note for _, own in ran for note in own]
    kept = sum(cell.key not in fresh for cell in cells)
    return Ran(cells, kept, tuple(dict.fromkeys(notes)))


def _check(plans: Sequence[Plan], out: Path, execute: Execute, tell: Tell) -> list[str]:
    """Run the frozen model where the paper's queries can be had, and compare."""
    natural = [replace(one, methods=("frozen",)) for one in plans if not one.row.corrupted]
    cells = [cell for one in natural for cell in _run(one, out, execute, tell)[0]]
    notes = [f"checked: {one}" for one in check_base(cells)]
    return notes or ["nothing to check: the paper has none of these rows without corruptions."]


def _run(plan: Plan, out: Path, execute: Execute, tell: Tell) -> tuple[list[Cell], list[str]]:
    """All cells of a plan, with sentences on what was left out or is not as it should be."""
    path = out / f"{plan.row.name}.jsonl"
    earlier, problems = read_lines(path) if path.exists() else Lines([], [])
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
    return [ours[task] for task in tasks], [*problems, *plan.notes(), *_skipped(ground)]


def in_turn(ground: PreparedBenchmark, tasks: Sequence[Task], watch: Watch) -> Iterator[Cell]:
    """The cells one after another, in this process."""
    return (work(ground, task, watch) for task in tasks)


@contextmanager
def in_processes(jobs: int) -> Iterator[Execute]:
    """The cells in so many processes of one thread, as they finish; for all plans of the block.

    A process is given the methods of one stream after another, so that it makes their queries once.
    """
    with lanes(jobs) as processes:

        def execute(
            ground: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
        ) -> Iterator[Cell]:
            streams = groupby(tasks, lambda task: task.stream)
            with _left_for_workers(ground) as kept:
                groups = [[(kept, task) for task in own] for _, own in streams]
                for cell in processes.as_finished(_work_here, groups):
                    watch(cell.queries)
                    yield cell

        yield execute


@contextmanager
def _left_for_workers(ground: PreparedBenchmark) -> Iterator[Path]:
    """A file to read it from: it may be large, and not every process gets to need it."""
    with TemporaryDirectory(prefix="queryshift-") as folder:
        kept = Path(folder) / "ground"
        with kept.open("wb") as file:
            pickle.dump(ground, file)
        yield kept


@lru_cache(maxsize=1)
def _ground(kept: Path) -> PreparedBenchmark:
    """What a worker process stands on until the next benchmark."""
    import torch

    torch.set_num_threads(1)
    ground: PreparedBenchmark = pickle.loads(kept.read_bytes())
    return ground


def _work_here(what: tuple[Path, Task]) -> Cell:
    kept, task = what
    return work(_ground(kept), task)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Be the only run that writes to a folder; the system lifts the lock however we end."""
    out.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":  # has no such locks
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


def _place(cell: Cell) -> Task:
    return Task(cell.shift, cell.severity, cell.seed, cell.method)


def _refuse_other_settings(
    ground: PreparedBenchmark, methods: Sequence[str], earlier: Iterable[Cell], path: Path
) -> None:
    """One table, one set of settings: numbers that cannot be compared do not share a file."""
    encoder = ground.encoder()
    wanted = {name: asdict(method_of(name, ground.row).resolved(encoder)) for name in methods}
    for cell in earlier:
        ours = ground.settings_under(cell.shift)
        if cell.method in wanted:
            ours["method"] = wanted[cell.method]
        other = "; ".join(_differences(cell.settings, json.loads(json.dumps(ours))))
        if other:
            raise BadInput(
                f'"{path}" has cells with other settings: {other}. Ask as before, or choose '
                "another folder."
            )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What is not as before, in words; what was not written down before is not compared."""
    for name, value in now.items():
        old = before.get(name, value)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _differences(old, value)
        elif old != value:
            yield f"{name} was {old!r}, is {value!r}"


def _skipped(ground: PreparedBenchmark) -> list[str]:
    if not ground.skipped:
        return []
    more = len(ground.skipped) - NAMED
    told = [f"{len(ground.skipped)} left out, unreadable:", *ground.skipped[:NAMED]]
    return ["\n  ".join([*told, f"and {more:,} more, which the cells name."] if more > 0 else told)]
