"""What every analysis starts from: a model, a gallery, and the shifted queries of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from ..benchmarks import BENCHMARKS, Benchmark
from ..datasets import Dataset
from ..encoder import Encoder
from ..errors import BadInput, unknown
from ..evaluate import Outcome, run, shifted
from ..galleries import Gallery
from ..methods.base import Method
from ..methods.frozen import Frozen
from ..models import load
from ..session import Session
from ..streams import corruption_of

ONLINE, DIVERSE = "tangram-o-image", "tangram-d-image"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which queries of which benchmark a figure is made from."""

    benchmark: str | None = None  # None: the figure's own choice
    shift: str | None = None  # None: the figure's own choice
    severity: int = 3
    queries: int = 512
    seed: int = 0


@dataclass(frozen=True)
class Stage:
    """Encoder, gallery and queries under one shift. A value: sessions start from it."""

    row: Benchmark
    dataset: Dataset
    encoder: Encoder
    gallery: Gallery
    request: Request

    @classmethod
    def open(cls, request: Request, benchmark: str = ONLINE) -> Self:
        """Load the model, embed the gallery, take the first queries; of `benchmark` by default."""
        row = _row(request.benchmark or benchmark)
        if request.shift is not None and request.shift not in row.shifts:
            raise BadInput(_no_shift(row, request.shift))
        dataset = _dataset(row, request.queries)
        model = load(row.model)
        gallery = Gallery.build(model[row.gallery], dataset.candidates)
        return cls(row, dataset, model[row.query], gallery, request)

    def under(self, shift: str | None, severity: int) -> Self:
        """The same candidates and queries, under another shift."""
        return replace(self, request=replace(self.request, shift=shift, severity=severity))

    @property
    def shift(self) -> str:
        """The shift in force: what was asked for, else the benchmark's first."""
        return self.row.shifts[0] if self.request.shift is None else self.request.shift

    @property
    def about(self) -> str:
        """In words, for the caption."""
        if not self.row.corrupted:
            return self.described("queries as they are")
        shift = self.shift or "a shift drawn for each query"
        return self.described(f"{shift} at severity {self.request.severity}")

    def described(self, *shifts: str) -> str:
        """The caption, with other words for the shifts."""
        counts = f"{len(self.dataset):,} queries, {len(self.gallery):,} candidates"
        return ", ".join((self.row.name, *shifts, counts, f"seed {self.request.seed}"))

    @cached_property
    def queries(self) -> list[Any]:
        """The queries under the shift, each with random numbers of its own."""
        corruption = corruption_of(self.row, self.shift)
        return shifted(self.dataset, corruption, self.request.severity, self.request.seed)

    def session(self, method: Method, **settings: Any) -> Session:
        """A fresh session."""
        return Session(self.encoder, self.gallery, method, **settings)

    def run(self, session: Session) -> Outcome:
        """The whole stream through a session, in an order drawn from the seed."""
        return run(session, self.queries, self.dataset.matches, self.request.seed, self.row.batch)

    def recall(self, method: Method) -> float:
        """Recall at 1 of a fresh session over the stream, in percent."""
        return self.run(self.session(method)).recall()

    def seen_by(self, session: Session, queries: Sequence[Any]) -> Tensor:
        """Vectors (Q, D) of queries through a session as it is now; nothing is learnt."""
        parts = range(0, len(queries), self.row.batch)
        found = [session.answer(queries[i : i + self.row.batch], adapt=False) for i in parts]
        return torch.cat([one.vectors for one in found])

    def seen_by_source(self, queries: Sequence[Any]) -> Tensor:
        """Vectors (Q, D) of queries through the source model."""
        return self.seen_by(self.session(Frozen()), queries)


def _no_shift(row: Benchmark, shift: str) -> str:
    known = ", ".join(row.shifts) or "none: every query has its own, or is as it is"
    return f'{row.name} has no shift "{shift}"; it has: {known}.'


def _row(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise unknown("benchmark", name, BENCHMARKS)
    row = BENCHMARKS[name]
    if row.on_disk:
        raise BadInput(f"{name} needs {' and '.join(row.needs)}: figures are made from tangram's.")
    return row


def _dataset(row: Benchmark, count: int) -> Dataset:
    from ..datasets.tangram import tangram

    task = row.name.rsplit("-", 1)[1]
    return tangram(task, count=count, look=row.part or "plain")
