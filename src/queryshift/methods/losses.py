"""The equations of the paper: tensors in, tensor out; the source-like pairs of Eq. 6 to 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

TINY = 1e-24  # below the root: keeps the slope of a distance of zero finite
LIMIT_MARGIN = 1e-3  # the largest trusted entropy may be zero


def entropy(logits: Tensor) -> Tensor:
    """Entropy (B,) of each row's softmax in nats; -inf logits count as absent."""
    logs = logits.log_softmax(dim=1)
    return -(logs.exp() * logs.masked_fill(torch.isneginf(logs), 0)).sum(dim=1)


def distance(left: Tensor, right: Tensor) -> Tensor:
    """Euclidean distance along the last axis, with a finite slope where it is zero."""
    return ((left - right).square().sum(dim=-1) + TINY).sqrt()


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
    difference = (source - now).masked_fill(torch.isneginf(source), 0)
    return (source.exp() * difference).sum(dim=1).mean()


@dataclass(frozen=True)
class SourceLike:
    """The query-candidate pairs with the smallest s_i of Eq. 6 so far, best first."""

    queries: Tensor  # (n, D)
    candidates: Tensor  # (n, D)
    distances: Tensor  # (n,) s_i
    entropies: Tensor  # (n,) at insertion
    batches: int = 0  # number of batches seen

    @classmethod
    def empty(cls, like: Tensor) -> Self:
        """No pairs yet, with the device and type of `like` (…, D)."""
        none = like.new_empty(0)
        vectors = like.new_empty(0, like.shape[-1])
        return cls(vectors, vectors, none, none)

    def with_batch(
        self, queries: Tensor, candidates: Tensor, entropies: Tensor, share: float, size: int
    ) -> Self:
        """Add the best `share` of a batch, and keep the best `size` pairs."""
        queries, candidates = queries.detach(), candidates.detach()
        distances = source_distance(queries, candidates)
        joining = distances.argsort(stable=True)[: max(1, int(share * len(distances)))]
        pairs = torch.cat((self.queries, queries[joining]))
        partners = torch.cat((self.candidates, candidates[joining]))
        ranking = torch.cat((self.distances, distances[joining]))
        entropies = torch.cat((self.entropies, entropies.detach()[joining]))
        kept = ranking.argsort(stable=True)[:size]
        values = (pairs[kept], partners[kept], ranking[kept], entropies[kept])
        return type(self)(*values, self.batches + 1)

    def check(self) -> None:
        """Refuse, with a ValueError, parts of different lengths or with wrong values."""
        parts = (self.queries, self.candidates, self.distances, self.entropies)
        if not all(isinstance(part, Tensor) and part.is_floating_point() for part in parts):
            raise ValueError("source-like pairs hold something other than tensors of numbers")
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise ValueError("source-like pairs hold NaN or infinity")
        if self.queries.ndim != 2 or self.queries.shape != self.candidates.shape:
            raise ValueError("source-like queries and candidates differ in shape")
        if {self.distances.shape, self.entropies.shape} != {self.queries.shape[:1]}:
            raise ValueError(f"{len(self.queries)} source-like pairs have other numbers of values")
        counted = type(self.batches) is int and self.batches >= 0
        if not counted or (self.batches > 0) != (len(self.queries) > 0):
            raise ValueError(f"{len(self.queries)} source-like pairs are of {self.batches} batches")

    def __len__(self) -> int:
        return len(self.distances)

    @property
    def gap(self) -> Tensor:
        """Eq. 7: the query-gallery gap of the source, estimated from the stream."""
        return gap(self.queries, self.candidates)

    @property
    def entropy_limit(self) -> Tensor:
        """Eq. 8: the largest entropy that is trusted."""
        return self.entropies.max()
