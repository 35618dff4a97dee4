"""How the cells of a benchmark are worked off: one after another, or in several processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from queryshift.support.processes import lanes

from ..results import Cell
from .context import RunContext
from .plans import Task
from .prepared_benchmark import PreparedBenchmark
from .run_cell import run_cell

Watch = Callable[[int], None]  # told how many more queries were answered
Execute = Callable[[RunContext, PreparedBenchmark, Sequence[Task], Watch], Iterator[Cell]]

WORKER = RunContext()
"""What a worker process, ours or Ray's, keeps until it ends; unused in the process of the run."""


def in_turn(
    context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
) -> Iterator[Cell]:
    """The cells one after another, in this process."""
    return (run_cell(context, prepared, task, watch) for task in tasks)


@contextmanager
def in_processes(jobs: int) -> Iterator[Execute]:
    """The cells in so many processes of one thread, as they finish; for all plans of the block.

    A process is given the methods of one stream after another, so that it makes their queries once.
    """
    with lanes(jobs) as processes:

        def execute(
            context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
        ) -> Iterator[Cell]:
            streams = groupby(tasks, lambda task: task.stream)
            with _stored(prepared) as path:
                groups = [[(path, task) for task in own] for _, own in streams]
                for cell in processes.as_finished(_in_worker, groups):
                    watch(cell.queries)
                    yield cell

        yield execute


def fetched(name: str, fetch: Callable[[], bytes]) -> PreparedBenchmark:
    """In a worker process: the benchmark at hand, fetched and unpacked when its name is new."""

    def unpacked() -> PreparedBenchmark:
        import torch

        torch.set_num_threads(1)
        prepared: PreparedBenchmark = pickle.loads(fetch())
        return prepared

    return WORKER.benchmark(name, unpacked)


@contextmanager
def _stored(prepared: PreparedBenchmark) -> Iterator[Path]:
    """A file for the workers to read: it may be large, and not every process comes to need it."""
    with TemporaryDirectory(prefix="queryshift-") as folder:
        path = Path(folder) / "prepared"
        with path.open("wb") as file:
            pickle.dump(prepared, file)
        yield path


def _in_worker(work: tuple[Path, Task]) -> Cell:
    path, task = work
    return run_cell(WORKER, fetched(str(path), path.read_bytes), task)
