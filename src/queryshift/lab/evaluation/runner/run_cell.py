"""One cell of a table: a method over one shifted stream, in sessions of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..benchmark_methods import hubs_of, session_of, settings_of
from ..results import Cell
from ..stream_evaluation import StreamResult, run
from .context import RunContext
from .machine import Memory, device_name, versions
from .plans import Task
from .prepared_benchmark import Part, PreparedBenchmark


def run_cell(
    context: RunContext,
    prepared: PreparedBenchmark,
    task: Task,
    watch: Callable[[int], None] | None = None,
) -> Cell:
    """Run one cell; `watch` gets the number of queries answered."""
    row, encoder = prepared.row, context.encoder(prepared)
    hubs = hubs_of(task.method)
    memory = Memory(encoder.device)
    streams = [_stream(context, prepared, part, task, watch) for part in prepared.parts]
    settings = {
        **prepared.settings_under(task.shift),
        "method": settings_of(task.method, row, encoder),
        **({} if hubs is None else {"hubs": asdict(hubs)}),
        "skipped": list(prepared.skipped),
    }
    return Cell(
        benchmark=row.name,
        shift=task.shift,
        severity=task.severity,
        protocol=row.protocol,
        method=task.method,
        seed=task.seed,
        candidates=prepared.settings["candidates"],
        model=prepared.model,
        categories={part.name: len(part.dataset) for part in prepared.parts if part.name},
        peak_memory_mb=memory.peak_mb(),
        device=device_name(encoder.device),
        versions=versions(),
        settings=settings,
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        **_joined(streams),
    )


def _stream(
    context: RunContext,
    prepared: PreparedBenchmark,
    part: Part,
    task: Task,
    watch: Callable[[int], None] | None,
) -> StreamResult:
    """One part of the benchmark, in a session of its own."""
    session = session_of(
        task.method,
        prepared.row,
        context.encoder(prepared),
        context.gallery(prepared, part),
        task.seed,
        context.matching(prepared, part),
    )
    return run(
        session,
        context.queries(prepared, part, task),
        part.dataset.matches,
        task.seed,
        prepared.row.batch,
        watch,
        exclude=part.dataset.exclude,
        subsets=part.dataset.subsets,
    )


def _joined(streams: Sequence[StreamResult]) -> dict[str, Any]:
    """Ranks and seconds of all parts; rows of ranks are filled up with zeros to the widest."""
    tables = [stream.all_ranks.numpy() for stream in streams]
    widest = max(table.shape[1] for table in tables)
    padded = [np.pad(table, ((0, 0), (0, widest - table.shape[1]))) for table in tables]
    subset = [one.subset_ranks.numpy() for one in streams if one.subset_ranks is not None]
    return {
        "ranks": np.concatenate(padded),
        "subset_ranks": np.concatenate(subset) if subset else None,
        "seconds": sum(stream.seconds for stream in streams),
    }
