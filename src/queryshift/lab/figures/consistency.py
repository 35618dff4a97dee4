"""How similar queries are to their right answers, before and after REST."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from queryshift.methods.rest import REST

from .charts import Histogram
from .experiment import Experiment, Request

BINS = 40


def true_pairs(queries: Tensor, candidates: Tensor, matches: Sequence[Sequence[int]]) -> Tensor:
    """Cosine (P,) of every query with each right answer; the best vector of a candidate counts."""
    pairs = [
        (candidates[list(right)] @ query).amax(dim=1)
        for query, right in zip(queries, matches, strict=True)
    ]
    return torch.cat(pairs)


def compute(request: Request) -> Histogram:
    """The distribution of true-pair cosines of shifted queries before and after, and of clean."""
    experiment = Experiment.open(request)
    session = experiment.session(REST())
    experiment.run(session)
    seen = {
        "shifted queries, before": experiment.seen_by_source(experiment.queries),
        "shifted queries, after REST": experiment.seen_by(session, experiment.queries),
        "clean queries, source model": experiment.seen_by_source(experiment.clean),
    }
    matches, candidates = experiment.dataset.matches, experiment.candidates
    cosines = {name: true_pairs(one, candidates, matches) for name, one in seen.items()}
    every = torch.cat(list(cosines.values()))
    edges = torch.linspace(float(every.min()), float(every.max()), BINS + 1)
    counts = {name: torch.histogram(one, edges).hist for name, one in cosines.items()}
    before, after, clean = (float(one.mean()) for one in cosines.values())
    return Histogram(
        title="How similar are queries to their right answers, before and after REST?",
        about=experiment.about,
        claim="REST raises the consistency of queries with their right answers.",
        holds=after > before,
        finding=(
            f"the mean cosine of true pairs is {before:.3f} before and {after:.3f} after; clean "
            f"queries have {clean:.3f}."
        ),
        x_label="cosine of a query and a right answer",
        y_label="share of pairs (%)",
        edges=edges.tolist(),
        shares={name: (100 * one / one.sum()).tolist() for name, one in counts.items()},
    )
