"""The start of every analysis: a model, a gallery, and a benchmark's shifted queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.errors import check_known, unknown
from queryshift.galleries import Gallery
from queryshift.lab.datasets import Dataset
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, Benchmark
from queryshift.lab.evaluation.corrupted_queries import corruption_of
from queryshift.lab.evaluation.ranks import ranks, recall
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.plans import Choices
from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
from queryshift.lab.evaluation.stream_evaluation import StreamResult, run, shifted
from queryshift.methods.base import Method
from queryshift.methods.frozen import Frozen
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Forward
from queryshift.sessions.session import Session
from queryshift.support.threads import lazy_property

ONLINE, DIVERSE = "tangram-o-image", "tangram-d-image"
COMPARED = {"frozen": "source model", "tent": "Tent", "tcr": "TCR", "rest": "REST"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which queries of which benchmark a figure is made from."""

    benchmark: str | None = None  # None: the figure's own choice
    shift: str | None = None  # None: the figure's own choice
    severity: int = 3
    seed: int = 0
    choices: Choices = Choices(queries=512)
    kept: Path  # folder of embedded galleries


@dataclass(frozen=True)
class Experiment:
    """Encoder, gallery and queries under one shift. A value: sessions start from it."""

    row: Benchmark
    dataset: Dataset
    encoder: Encoder
    gallery: Gallery
    request: Request

    @classmethod
    def open(cls, request: Request, benchmark: str = ONLINE) -> Self:
        """Make the benchmark ready, `benchmark` by default; of several categories the first."""
        name = request.benchmark or benchmark
        check_known("benchmark", name, BENCHMARKS)
        row = BENCHMARKS[name]
        if request.shift is not None and request.shift not in row.shifts:
            raise unknown(f"shift of {name}", request.shift, row.shifts)
        context = RunContext()
        prepared = prepare(row, request.choices, request.kept, context)
        part, encoder = prepared.parts[0], context.encoder(prepared)
        return cls(row, part.dataset, encoder, part.gallery.to(encoder.device), request)

    def under(self, shift: str, severity: int) -> Self:
        """The same candidates and queries, under another shift."""
        return replace(self, request=replace(self.request, shift=shift, severity=severity))

    @property
    def shift(self) -> str:
        """The requested shift, else the benchmark's first."""
        return self.row.shifts[0] if self.request.shift is None else self.request.shift

    @property
    def about(self) -> str:
        """In words, for the caption."""
        if not self.row.corrupted:
            return self.described("queries as they are")
        return self.described(f"{shift_in_words(self.shift)} at severity {self.request.severity}")

    def described(self, *shifts: str) -> str:
        """The caption, with other words for the shifts."""
        counts = f"{len(self.dataset):,} queries, {len(self.gallery):,} candidates"
        name = (self.row.name, *self.row.categories[:1])
        return ", ".join((*name, *shifts, counts, f"seed {self.request.seed}"))

    @lazy_property
    def queries(self) -> list[Any]:
        """The queries under the shift, each with random numbers of its own."""
        corruption = corruption_of(self.row, self.shift, self.request.choices)
        return shifted(self.dataset, corruption, self.request.severity, self.request.seed)

    @lazy_property
    def clean(self) -> list[Any]:
        """The same queries without the shift."""
        return list(self.dataset.queries)

    def method(self, name: str) -> Method:
        """A method as the benchmark wants it."""
        return method_of(name, self.row)

    def session(self, method: Method, **settings: Any) -> Session:
        """A fresh session, without a guard unless it is given one."""
        return Session(self.encoder, self.gallery, method, **{"guard": None, **settings})

    def run(self, session: Session) -> StreamResult:
        """The whole stream through a session, in an order drawn from the seed."""
        matches, seed, batch = self.dataset.matches, self.request.seed, self.row.batch
        return run(session, self.queries, matches, seed, batch, exclude=self.dataset.exclude)

    def recall(self, method: Method) -> float:
        """Recall at 1 of a fresh session over the stream, in percent."""
        return self.run(self.session(method)).recall()

    def recall_of(self, vectors: Tensor) -> float:
        """Recall at 1 of query vectors (Q, D), in the dataset's order, in percent."""
        pairs = [(row, gone) for row, all_of in enumerate(self.dataset.exclude) for gone in all_of]
        exclude = torch.tensor(pairs) if pairs else None
        scores = Answer(Forward(vectors, self.gallery, exclude)).scores()
        return recall(ranks(scores, self.dataset.matches), 1)

    @lazy_property
    def candidates(self) -> Tensor:
        """Vectors (N, V, D) of the gallery, on the CPU."""
        return self.gallery.vectors.cpu()

    def seen_by(self, session: Session, queries: Sequence[Any]) -> Tensor:
        """Vectors (Q, D) of queries through a session as it is now; nothing is learnt."""
        parts = range(0, len(queries), self.row.batch)
        found = [session.answer(queries[i : i + self.row.batch], adapt=False) for i in parts]
        return torch.cat([one.vectors for one in found]).cpu()

    def seen_by_source(self, queries: Sequence[Any]) -> Tensor:
        """Vectors (Q, D) of queries through the source model."""
        return self.seen_by(self.session(Frozen()), queries)


def shift_in_words(shift: str) -> str:
    """A shift in words."""
    return shift or "a shift drawn for each query"
