"""The equations of the paper: tensors in, tensor out."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-12  # keeps the slope of a distance of zero finite


def entropy(logits: Tensor) -> Tensor:
    """Entropy (B,) of each row's softmax in nats; -inf logits count as absent."""
    logs = logits.log_softmax(dim=1)
    return -(logs.exp() * logs.masked_fill(torch.isneginf(logs), 0)).sum(dim=1)


def distance(left: Tensor, right: Tensor) -> Tensor:
    """Euclidean distance along the last axis, with a finite slope where it is zero."""
    return ((left - right).square().sum(dim=-1) + TINY**2).sqrt()


def uniformity(queries: Tensor, scale: float = 1.0) -> Tensor:
    """Eq. 9: mean of exp(-scale * distance to the queries' centre)."""
    return torch.exp(-scale * distance(queries, queries.mean(dim=0))).mean()


def gap(queries: Tensor, candidates: Tensor) -> Tensor:
    """Eq. 7: distance between the centre of the queries and that of the candidates."""
    return distance(queries.mean(dim=0), candidates.mean(dim=0))


def source_distance(queries: Tensor, candidates: Tensor) -> Tensor:
    """Eq. 6: s_i (B,), small for pairs that look like the source domain's."""
    spread = distance(queries, queries.mean(dim=0)) + distance(candidates, candidates.mean(dim=0))
    return 2 * distance(queries, candidates) - spread


def reliability(entropies: Tensor, limit: Tensor | float) -> Tensor:
    """Eq. 12: W (B,) = max(1 - E / limit, 0), without a gradient."""
    return (1 - entropies.detach() / limit).clamp(min=0)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Eq. 12 and 14: sum of weights times values over the number of weights that are not zero."""
    return (weights * values).sum() / (weights != 0).sum().clamp(min=1)


def hard_margin(positive: Tensor, hardest: Tensor) -> Tensor:
    """Eq. 14: H (B,) = -log c of the positive + log c of the hardest negative."""
    return hardest.log() - positive.log()


def divergence(source_logits: Tensor, logits: Tensor) -> Tensor:
    """Definition 2: mean KL divergence of the prediction from the source's."""
    source, now = source_logits.log_softmax(dim=1), logits.log_softmax(dim=1)
    absent = torch.isneginf(source)
    difference = source.masked_fill(absent, 0) - now.masked_fill(absent, 0)
    return (source.exp() * difference).sum(dim=1).mean()
