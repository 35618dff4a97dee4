"""How the cells of a benchmark are run: in turn, in several processes, or on a Ray cluster."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from queryshift.support.optional import need
from queryshift.support.processes import lanes

from ..results import Cell
from .context import RunContext
from .plans import Task
from .prepared_benchmark import PreparedBenchmark
from .run_cell import run_cell

Watch = Callable[[int], None]  # called with the number of queries answered
Execute = Callable[[RunContext, PreparedBenchmark, Sequence[Task], Watch], Iterator[Cell]]

WORKER = RunContext()
AT_HAND: dict[str, PreparedBenchmark] = {}  # one by its name
"""What a worker process, ours or Ray's, keeps until it ends; unused in the process of the run."""


def in_turn(
    context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
) -> Iterator[Cell]:
    """The cells one after another, in this process."""
    return (run_cell(context, prepared, task, watch) for task in tasks)


@contextmanager
def in_processes(jobs: int) -> Iterator[Execute]:
    """Run cells in `jobs` processes of one thread each; yields them as they finish.

    A process is given the methods of one stream after another, so that it makes their queries once.
    """
    with lanes(jobs) as processes:

        def execute(
            context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
        ) -> Iterator[Cell]:
            streams = groupby(tasks, lambda task: task.stream)
            with _stored(prepared) as path:
                groups = [[(path, task) for task in own] for _, own in streams]
                for cell in processes.as_finished(_from_file, groups):
                    watch(cell.queries)
                    yield cell

        yield execute


def fetched(name: str, fetch: Callable[[], bytes]) -> PreparedBenchmark:
    """In a worker process: the benchmark at hand, fetched and unpacked when its name is new."""
    if name not in AT_HAND:
        torch.set_num_threads(1)
        AT_HAND.clear()
        AT_HAND[name] = pickle.loads(fetch())
    return AT_HAND[name]


@contextmanager
def _stored(prepared: PreparedBenchmark) -> Iterator[Path]:
    """Store a benchmark in a file for the workers: it may be large, and few may need it."""
    with TemporaryDirectory(prefix="queryshift-") as folder:
        path = Path(folder) / "prepared"
        with path.open("wb") as file:
            pickle.dump(prepared, file)
        yield path


def _from_file(work: tuple[Path, Task]) -> Cell:
    path, task = work
    return run_cell(WORKER, fetched(str(path), path.read_bytes), task)


class _Shared(NamedTuple):
    """What is sent with every task; the benchmark itself is in Ray's store."""

    name: str
    started_in: Path
    packed: list[Any]  # one reference; in a list, so that Ray leaves it for us to fetch


def on_ray() -> Execute:
    """Cells as Ray tasks: a CPU each, and a whole GPU where the device is one.

    `ray.init` finds the cluster as Ray does (`RAY_ADDRESS`, else one is started here). The
    dataset's files and the model must be found under the same names on every machine.
    """
    ray = need("ray", "ray", "running cells on a cluster")

    def execute(
        context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
    ) -> Iterator[Cell]:
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        packed = pickle.dumps(prepared)
        gpus = 0.0 if prepared.choices.device == "cpu" else 1.0
        remote = ray.remote(num_cpus=1, num_gpus=gpus)(_from_ray)
        name = blake2b(packed, digest_size=8).hexdigest()
        shared = _Shared(name, Path.cwd(), [ray.put(packed)])
        yield from _as_finished(ray, [remote.remote(shared, task) for task in tasks], watch)

    return execute


def _as_finished(ray: Any, waiting: list[Any], watch: Watch) -> Iterator[Cell]:
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            for cell in ray.get(done):
                watch(cell.queries)
                yield cell
    finally:
        for task in waiting:
            ray.cancel(task, force=True)


def _from_ray(shared: _Shared, task: Task) -> Cell:
    """One cell, and where it ran; the benchmark is fetched once per process."""
    import ray

    def fetch() -> bytes:
        with suppress(OSError):  # another machine may not have the folder
            os.chdir(shared.started_in)
        packed: bytes = ray.get(shared.packed[0])
        return packed

    cell = run_cell(WORKER, fetched(shared.name, fetch), task)
    node = ray.get_runtime_context().get_node_id()
    return replace(cell, settings={**cell.settings, "ray_node": node})
