"""Seconds per method like the paper's table, as ratios inside one interleaved run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from queryshift.galleries import Gallery
from queryshift.methods.specs import Spec
from queryshift.sessions.session import Session
from queryshift.support.progress import track

from .charts import Grid
from .experiment import Experiment, Request

METHODS = {
    **{name: Spec.read(name.lower()).make() for name in ("Tent", "EATA", "READ", "TSA", "REST")},
    "REST, decoupled": Spec.read("rest:decouple=true").make(),
}
BENCHMARKS = ("tangram-o-image", "tangram-o-text")
SHARES = (0.5, 1.0)  # of the gallery
QUERIES = 1000  # that the seconds are given for


def compute(request: Request) -> Grid:
    """Seconds for 1,000 queries and ratios to Tent: both directions, half the gallery and all."""
    names = (request.benchmark,) if request.benchmark else BENCHMARKS
    experiments = [Experiment.open(replace(request, benchmark=name)) for name in names]
    columns: dict[str, dict[str, list[float]]] = {}
    for experiment in experiments:
        for share in SHARES:
            gallery = part(experiment.gallery, share)
            label = f"{experiment.row.query} queries,\n{len(gallery):,} candidates"
            columns[label] = timed(experiment, gallery)
    return _chart("; ".join(experiment.about for experiment in experiments), columns)


def part(gallery: Gallery, share: float) -> Gallery:
    """The first candidates of a gallery."""
    kept = int(share * len(gallery))
    return Gallery.from_vectors(gallery.ids[:kept], gallery.vectors[:kept])


def timed(experiment: Experiment, gallery: Gallery) -> dict[str, list[float]]:
    """Seconds of every batch with every method; all take a batch before any takes the next."""
    sessions = {
        name: Session(experiment.encoder, gallery, one, guard=None) for name, one in METHODS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in sessions}
    size = experiment.row.batch
    starts = range(0, len(experiment.queries) - size + 1, size) or range(1)
    for start in track(starts, f"{len(gallery):,} candidates"):
        asked = experiment.queries[start : start + size]
        for name, session in sessions.items():
            seconds[name].append(clocked(session, asked))
    return {name: [QUERIES / size * one for one in all_of] for name, all_of in seconds.items()}


def clocked(session: Session, asked: Sequence[Any]) -> float:
    """Seconds until the answer to a batch is in hand."""
    started = time.perf_counter()
    session.answer(asked).top(10)
    return time.perf_counter() - started


def _chart(about: str, columns: dict[str, dict[str, list[float]]]) -> Grid:
    first = next(iter(METHODS))
    rows = {name: [median(one[name]) for one in columns.values()] for name in METHODS}
    ratios = {
        name: [
            median(own / base for own, base in zip(one[name], one[first], strict=True))
            for one in columns.values()
        ]
        for name in METHODS
    }
    against = {name: sum(values) / len(values) for name, values in ratios.items()}
    listed = ", ".join(f"{name} {one:.2f}" for name, one in against.items())
    return Grid(
        title="What does adaptation cost?",
        about=f"{about}; median of batches, methods in turn on each batch",
        claim="REST costs about as much as Tent, and less than TSA.",
        holds=against["REST"] < 1.1 and against["REST"] < against["TSA"],
        finding=f"seconds as a multiple of Tent's, mean of the columns: {listed}.",
        unit=f"seconds for {QUERIES:,} queries (multiple of Tent's)",
        columns=list(columns),
        rows=rows,
        ratios=ratios,
    )
