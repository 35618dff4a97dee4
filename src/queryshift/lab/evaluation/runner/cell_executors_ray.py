"""The same cells on a Ray cluster: one task each, wherever there is room."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from queryshift.errors import missing

from ..results import Cell
from .cell_executors import WORKER, Execute, Watch, fetched
from .context import RunContext
from .plans import Task
from .prepared_benchmark import PreparedBenchmark
from .run_cell import run_cell


class _Shared(NamedTuple):
    """What all tasks are sent: little, since the benchmark itself waits in Ray's store."""

    name: str
    started_in: Path
    packed: list[Any]  # one reference; in a list, so that Ray leaves it for us to fetch


def on_ray() -> Execute:
    """Cells as Ray tasks: a CPU each, and a whole GPU where the device is one.

    `ray.init` finds the cluster as Ray does (`RAY_ADDRESS`, else one is started here). The
    dataset's files and the model must be found under the same names on every machine.
    """
    try:
        import ray
    except ImportError:
        raise missing("ray", "ray", "running cells on a cluster") from None

    def execute(
        context: RunContext, prepared: PreparedBenchmark, tasks: Sequence[Task], watch: Watch
    ) -> Iterator[Cell]:
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        packed = pickle.dumps(prepared)
        gpus = 0.0 if prepared.choices.device == "cpu" else 1.0
        remote = ray.remote(num_cpus=1, num_gpus=gpus)(_in_worker)
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


def _in_worker(shared: _Shared, task: Task) -> Cell:
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
