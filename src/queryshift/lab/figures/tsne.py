"""Queries and gallery in the plane, before and after REST, by one joint t-SNE."""

from __future__ import annotations

import torch
from torch import Tensor

from queryshift.lab.evaluation.ranks import gap, spread
from queryshift.methods.rest import REST
from queryshift.support.optional import need

from .charts import Clouds
from .experiment import Experiment, Request

PERPLEXITY = 30


def compute(request: Request) -> Clouds:
    """The queries' right answers, and the queries before and after, in the same coordinates."""
    need("sklearn", "figures", "t-SNE")  # before the long part
    experiment = Experiment.open(request)
    session = experiment.session(REST())
    experiment.run(session)
    before = experiment.seen_by_source(experiment.queries)
    after = experiment.seen_by(session, experiment.queries)
    clean = experiment.seen_by_source(experiment.clean)
    answers = experiment.candidates[[right[0] for right in experiment.dataset.matches], 0]
    spreads = [spread(one) for one in (before, after, clean)]
    gaps = [gap(one, experiment.candidates) for one in (before, after, clean)]
    return Clouds(
        title="Where do queries and their right answers lie, before and after REST?",
        about=f"{experiment.about}; one t-SNE of all points, cosine distance",
        claim="REST scatters the queries and closes the distance of the two centres.",
        holds=spreads[1] > spreads[0] and gaps[1] < gaps[0],
        finding=(
            f"spread {spreads[0]:.3f} before and {spreads[1]:.3f} after ({spreads[2]:.3f} for "
            f"clean queries), gap {gaps[0]:.3f} before and {gaps[1]:.3f} after ({gaps[2]:.3f})."
        ),
        panels=_panels(answers, {"before": before, "after REST": after}, request.seed),
    )


def plane(vectors: Tensor, seed: int) -> Tensor:
    """t-SNE coordinates (n, 2) of vectors (n, D)."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(init="pca", perplexity=perplexity, metric="cosine", random_state=seed)
    return torch.from_numpy(found.fit_transform(vectors.numpy()))


def _panels(
    answers: Tensor, queries: dict[str, Tensor], seed: int
) -> dict[str, dict[str, list[list[float]]]]:
    placed = plane(torch.cat([answers, *queries.values()]), seed)
    points = [_short(part) for part in torch.split(placed, len(answers))]
    named = zip(queries, points[1:], strict=True)
    return {name: {"right answers": points[0], "queries": own} for name, own in named}


def _short(points: Tensor) -> list[list[float]]:
    """Two decimals are finer than any image of them."""
    return [[round(x, 2), round(y, 2)] for x, y in points.tolist()]
