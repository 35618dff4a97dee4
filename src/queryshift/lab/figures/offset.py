"""Recall when all queries are moved towards the gallery or away from it (Eq. offset)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.errors import BadInput
from queryshift.lab.evaluation.ranks import gap
from queryshift.methods.rest import REST

from .charts import Curves, Line, Mark
from .experiment import Experiment, Request

FACTORS = tuple(round(-1 + 0.125 * step, 3) for step in range(25))  # -1 to 2


def moved(queries: Tensor, candidates: Tensor, factor: float) -> Tensor:
    """Queries (Q, D) moved along the line of the two centres; 1 closes the gap, then unit length.

    Candidates are (N, V, D).
    """
    between = queries.mean(dim=0) - candidates.flatten(0, 1).mean(dim=0)
    return normalize(queries - factor * between, dim=1)


def compute(request: Request) -> Curves:
    """Recall at 1 over offsets, with the offset that gives the gap REST takes for the source's."""
    experiment = Experiment.open(request)
    queries, candidates = experiment.seen_by_source(experiment.queries), experiment.candidates
    sets = [moved(queries, candidates, factor) for factor in FACTORS]
    recalls = [experiment.recall_of(one) for one in sets]
    gaps = [gap(one, candidates) for one in sets]
    clean = gap(experiment.seen_by_source(experiment.clean), candidates)
    estimate = source_gap(experiment)
    place = crossing(gaps, estimate)
    there = None if place is None else experiment.recall_of(moved(queries, candidates, place))
    places = {
        "untouched": 0.0,
        "gap closed": 1.0,
        f"gap of clean queries ({clean:.2f})": crossing(gaps, clean),
        f"estimated source gap ({estimate:.2f})": place,
    }
    marks = [Mark(x, text) for text, x in places.items() if x is not None]
    lines = [
        Line("recall at 1 (%)", FACTORS, recalls),
        Line("gap x 100", FACTORS, [100 * one for one in gaps]),
    ]
    at = dict(zip(FACTORS, recalls, strict=True))
    best = max(at, key=lambda one: at[one])
    met = "is not met by any offset" if there is None else f"gives {there:.1f} %"
    return Curves(
        title="Does it help to move the queries towards the gallery?",
        about=experiment.about,
        claim="Closing the gap ever further does not always help; the estimated source gap does.",
        holds=there is not None and there > at[0.0] and there >= at[1.0],
        finding=(
            f"recall at 1 is {at[0.0]:.1f} % untouched and {at[1.0]:.1f} % with the gap closed; "
            f"the estimated source gap {met}; the best offset is {best:g} with {at[best]:.1f} %."
        ),
        x_label="offset (0: untouched, 1: the centres meet, before rescaling)",
        y_label="recall at 1 (%), gap (x 100)",
        lines=lines,
        marks=marks,
    )


def source_gap(experiment: Experiment) -> float:
    """The gap REST takes for the source's (Eq. 7), from a session that never moves."""
    session = experiment.session(REST(lr=0.0), steps=1)
    estimate = experiment.run(session).history[-1].source_gap
    if estimate is None:
        raise BadInput("no query is like the source's, so there is no gap: ask for more queries.")
    return estimate


def crossing(gaps: list[float], wanted: float) -> float | None:
    """The first offset, from 0 on, at which the gap is the wanted one; None if there is none."""
    start = FACTORS.index(0.0)
    values = torch.tensor(gaps[start:], dtype=torch.float64) - wanted
    for step in range(len(values) - 1):
        left, right = float(values[step]), float(values[step + 1])
        if left * right <= 0 and left != right:
            first, second = FACTORS[start + step], FACTORS[start + step + 1]
            return first + (second - first) * left / (left - right)
    return None
