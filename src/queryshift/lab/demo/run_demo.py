"""The demo's streams: every method gets the same shifted and the same clean queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from queryshift.encoders.encoder import Encoder
from queryshift.galleries import Gallery
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.benchmark_methods import plain_session
from queryshift.lab.evaluation.stream_evaluation import StreamResult, run, shifted
from queryshift.models import load
from queryshift.support.progress import counting

from .demo_plan import QUICK_SHARE, DemoPlan


@dataclass(frozen=True)
class Stream:
    """One stream through one method."""

    method: str
    result: StreamResult

    @property
    def right(self) -> float:
        """Percentage of queries whose top-1 result is right."""
        return self.result.recall(1)

    def row(self, name: str, before: float) -> Row:
        """Its line of the table."""
        queries = len(self.result.ranks)
        milliseconds = 1000 * self.result.seconds / queries
        return Row(name, queries, self.method, before, self.right, milliseconds)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    stream: str  # "shifted" or "clean"
    queries: int
    method: str
    right_before: float  # percent of top-1 results, without adaptation
    right_after: float
    ms_per_query: float  # adaptation and answer together


@dataclass(frozen=True, eq=False)
class Demo:
    """The results of a demo."""

    plan: DemoPlan
    dataset: Dataset
    queries: Sequence[Any]  # as they were asked, shifted
    shifted: tuple[Stream, ...]
    clean: tuple[Stream, ...]

    @property
    def rows(self) -> list[Row]:
        """The table: every method on both streams, beside the model as it is."""
        named = {"shifted": self.shifted, "clean": self.clean}
        return [
            own.row(name, streams[0].right) for name, streams in named.items() for own in streams
        ]

    @property
    def question(self) -> str:
        """The question that every query stands for."""
        return self.plan.words.question.format(f"{len(self.dataset.candidates):,}")

    @property
    def unchanged(self) -> int:
        """How many queries the shift left as they were: not all have a verb to turn."""
        return sum(map(_same, self.queries, self.dataset.queries))

    def described(self, row: Row) -> str:
        """The queries of a row, in words."""
        how = "clean" if row.stream == "clean" else self.plan.shift_in_words
        return f"{row.queries:,} {self.plan.words.queries}, {how}"


def _same(first: Any, second: Any) -> bool:
    """Whether two queries are equal; composed ones are pairs."""
    if isinstance(first, tuple):
        return all(map(_same, first, second))
    return bool(np.array_equal(first, second))


def demonstrate(plan: DemoPlan) -> Demo:
    """Ask every method the plan's shifted queries, then half as many clean ones."""
    model, query, other = TASKS[plan.task]
    corruption = plan.corruption()
    dataset = tangram(plan.task, count=plan.queries)
    if plan.quick:
        kept = len(dataset.candidates) // QUICK_SHARE
        dataset = replace(dataset, candidates=dataset.candidates[:kept])
    encoders = load(model)
    gallery = Gallery.build(encoders[other], dataset.candidates, batch_size=256)
    queries = shifted(dataset, corruption, plan.severity, plan.seed)
    streams = partial(_streams, encoders[query], gallery, dataset, plan)
    return Demo(
        plan=plan,
        dataset=dataset,
        queries=queries,
        shifted=tuple(streams(queries, plan.shift_in_words)),
        clean=tuple(streams(dataset.queries[: plan.queries // 2], "clean")),
    )


def _streams(
    encoder: Encoder,
    gallery: Gallery,
    dataset: Dataset,
    plan: DemoPlan,
    queries: Sequence[Any],
    label: str,
) -> Iterator[Stream]:
    """The same queries in the same order, by each method from its source on."""
    matches = dataset.matches[: len(queries)]
    for method in plan.methods:
        session = plain_session(method, encoder, gallery)
        with counting(f"{label}: {method}", len(queries)) as watch:
            result = run(session, queries, matches, plan.seed, plan.batch, watch)
        yield Stream(method, result)
