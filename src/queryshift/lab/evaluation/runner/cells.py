"""One cell of a table: a method over one shifted stream, in sessions of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from queryshift.encoders.matcher import Matching
from queryshift.galleries import Gallery
from queryshift.lab.datasets import Dataset
from queryshift.sessions.session import Session

from ..benchmark_methods import method_of
from ..benchmarks import Benchmark
from ..results import Cell
from ..stream_evaluation import StreamResult, run
from ..streams import Shifted, corruption_of
from .machine import Memory, device_name, versions
from .materialised import materialised
from .prepared_benchmark import Choices, Part, PreparedBenchmark


@dataclass(frozen=True)
class Task:
    """What tells a cell from the others of its benchmark."""

    shift: str
    severity: int
    seed: int
    method: str  # as `specs` writes it: "rest", "tent:lr=0.001+refined"

    @property
    def stream(self) -> tuple[str, int, int]:
        """What all methods are asked alike."""
        return self.shift, self.severity, self.seed


def work(ground: PreparedBenchmark, task: Task, watch: Callable[[int], None] | None = None) -> Cell:
    """Run one cell."""
    encoder, method = ground.encoder(), method_of(task.method, ground.row)
    memory = Memory(encoder.device)
    outcomes = []
    for part in ground.parts:
        gallery = _moved(part.gallery, encoder.device)
        judge = _matching(ground, part)
        session = Session(encoder, gallery, method, matcher=judge, seed=task.seed)
        dataset = part.dataset
        done = run(
            session,
            _queries(ground.row, ground.choices, dataset, task),
            dataset.matches,
            task.seed,
            ground.row.batch,
            watch,
            exclude=dataset.exclude,
            subsets=dataset.groups,
        )
        outcomes.append(done)
    return _cell(ground, task, outcomes, asdict(session.method), memory.peak_mb())


def _queries(row: Benchmark, choices: Choices, dataset: Dataset, task: Task) -> Sequence[Any]:
    if choices.folder is not None:
        return materialised(row, dataset, task.shift, task.severity, choices.folder)
    return _shifted(row, choices, dataset, *task.stream)


@lru_cache(maxsize=3)
def _moved(gallery: Gallery, device: torch.device) -> Gallery:
    """Kept for the next cells, with the centroids it has by then."""
    return gallery.to(device)


@lru_cache(maxsize=1)
def _matching(ground: PreparedBenchmark, part: Part) -> Matching | None:
    """The matcher over the candidates, kept for the next cells: it may hold much of each."""
    judge = ground.matcher()
    return None if judge is None else judge.over(part.dataset.candidates)


@lru_cache(maxsize=3)  # as many as FashionIQ has categories
def _shifted(
    row: Benchmark, choices: Choices, dataset: Dataset, shift: str, severity: int, seed: int
) -> Shifted:
    """Kept for the next methods, which are asked the same."""
    made = corruption_of(row, shift, choices.translator, choices.noise)
    return Shifted(dataset, made, severity, seed)


def _cell(
    ground: PreparedBenchmark,
    task: Task,
    outcomes: Sequence[StreamResult],
    method: Any,
    peak_mb: float | None,
) -> Cell:
    row = ground.row
    few = [one.subset_ranks for one in outcomes if one.subset_ranks is not None]
    return Cell(
        benchmark=row.name,
        shift=task.shift,
        severity=task.severity,
        setting=row.setting,
        method=task.method,
        seed=task.seed,
        ranks=_joined([one.all_ranks.numpy() for one in outcomes]),
        subset_ranks=np.concatenate([one.numpy() for one in few]) if few else None,
        candidates=ground.settings["candidates"],
        model=ground.model,
        groups={part.name: len(part.dataset) for part in ground.parts if part.name},
        seconds=sum(one.seconds for one in outcomes),
        peak_memory_mb=peak_mb,
        device=device_name(ground.encoder().device),
        versions=versions(),
        settings={
            **ground.settings_under(task.shift),
            "method": method,
            "skipped": list(ground.skipped),
        },
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


def _joined(tables: Sequence[Any]) -> Any:
    """Tables (Q, R) one below the other, filled up with zeros to the widest."""
    widest = max(table.shape[1] for table in tables)
    return np.concatenate([np.pad(one, ((0, 0), (0, widest - one.shape[1]))) for one in tables])
