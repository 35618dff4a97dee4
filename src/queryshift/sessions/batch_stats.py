"""What a session sees of the shift, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.methods.losses import distance, entropy, gap, reliability
from queryshift.methods.source_like import LIMIT_MARGIN, SourceLike
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined

NEIGHBOURS, TEMPERATURE = 10, 0.02  # the paper's, so that all methods are measured alike


@dataclass(frozen=True)
class BatchStats:
    """One batch: how its queries lie, and what the session did."""

    batch: int
    queries: int
    adapted: bool
    spread: float  # mean distance of the queries to their centre
    gap: float  # distance of the queries' centre to that of their nearest candidates
    source_gap: float | None  # the same for pairs that look like the source's
    similarity: float  # mean cosine of a query and its nearest candidate
    entropy: float  # mean, of the refined prediction, nats
    reliable: float | None  # share of queries sure enough to be learnt from
    drift: float | None = None  # KL of the prediction from the source's
    domain_angle: float | None = None  # degrees: the method's gradient to the general direction
    applied_angle: float | None = None  # degrees: the applied gradient to the general direction
    disagreement: float | None = None  # shadow: share of first places that differ from the source's
    restart: str | None = None  # why the session went back to its source
    resets: int = 0  # so far
    strangeness: float | None = None  # standard errors from ordinary queries; None: not looked at


@torch.no_grad()
def measures(
    forward: Forward, source: SourceLike, unsure: Tensor | None, more: Mapping[str, Tensor]
) -> dict[str, Any]:
    """The measures of one retrieval against the source-like pairs so far; one wait for the GPU.

    `unsure` are the entropies a method trusts by, if they are not the refined prediction's; `more`
    was measured before.
    """
    queries, nearest = forward.vectors, forward.nearest
    entropies = refined_entropies(forward)
    values = [
        distance(queries, queries.mean(dim=0)).mean(),
        gap(queries, nearest),
        (queries * nearest).sum(dim=1).mean(),
        entropies.mean(),
    ]
    names = ["spread", "gap", "similarity", "entropy"]
    if len(source):
        compared = entropies if unsure is None else unsure
        trusted = reliability(compared, source.entropy_limit.to(compared) + LIMIT_MARGIN) > 0
        values += [source.gap.to(queries), trusted.to(queries.dtype).mean()]
        names += ["source_gap", "reliable"]
    values += [value.to(queries) for value in more.values()]
    found = dict(zip([*names, *more], torch.stack(values).tolist(), strict=True))
    return {"source_gap": None, "reliable": None, **found}


@torch.no_grad()
def refined_entropies(forward: Forward) -> Tensor:
    """Entropy (B,) of the refined prediction with the paper's settings."""
    return entropy(refined(forward, NEIGHBOURS, TEMPERATURE).logits)
