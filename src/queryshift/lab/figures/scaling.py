"""Recall when queries are spread apart, or drawn together, around their centre (Eq. scale)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from .charts import Curves, Line, Mark
from .experiment import Experiment, Request

FACTORS = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)


def scaled(queries: Tensor, factor: float) -> Tensor:
    """Queries (Q, D) moved away from their centre by a factor, then of unit length again."""
    centre = queries.mean(dim=0)
    return normalize(centre + factor * (queries - centre), dim=1)


def compute(request: Request) -> Curves:
    """Recall at 1 over scaling factors, for the shifted queries and for the clean ones."""
    experiment = Experiment.open(request)
    sources = {"shifted queries": experiment.queries, "clean queries": experiment.clean}
    lines = []
    for name, queries in sources.items():
        vectors = experiment.seen_by_source(queries)
        found = [experiment.recall_of(scaled(vectors, factor)) for factor in FACTORS]
        lines.append(Line(name, FACTORS, found))
    recalls = dict(zip(FACTORS, lines[0].y, strict=True))
    untouched = recalls[1.0]
    wide = max((factor for factor in FACTORS if factor > 1), key=lambda one: recalls[one])
    tight, together = min(FACTORS), max(recalls[factor] for factor in FACTORS if factor < 1)
    return Curves(
        title="Does it help to spread the queries apart?",
        about=experiment.about,
        claim="Spreading the queries raises recall, drawing them together does not.",
        holds=recalls[wide] > untouched >= together,
        finding=(
            f"recall at 1 is {untouched:.1f} % untouched, {recalls[wide]:.1f} % at best when "
            f"spread (factor {wide:g}), {recalls[tight]:.1f} % drawn together (factor {tight:g})."
        ),
        x_label="scaling factor of the queries (1: untouched; logarithmic)",
        lines=lines,
        marks=[Mark(1.0, "untouched")],
        log_x=True,
    )
