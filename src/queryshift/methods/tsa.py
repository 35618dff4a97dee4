"""TSA (Chen et al., ICML 2025): small extra modules on one side at a time, the encoders frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..encoder import Encoder, Params
from ..galleries import Gallery, Searchable
from ..losses import entropy
from ..retrieval import Look, Retrieval
from .base import Method, Update, setting

QUERY, GALLERY, ROUTER = "tsa.query", "tsa.gallery", "tsa.router"


@dataclass(frozen=True, kw_only=True)
class TSA(Method):
    """A residual map for queries and one for candidates; a router draws which one is trained."""

    confidence: float = setting(0.9, "a port", "least probability of a pseudo-label")
    label_weight: float = setting(0.5, "a port", "weight of the pseudo-label term")
    router_temperature: float = setting(1e-3, "a port", "of the Gumbel-softmax draw")

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """Two maps and a router, all zero: at the start nothing is changed."""
        size, like = gallery.dimension, gallery.centroids(1)
        return {
            QUERY: like.new_zeros(size, size),
            GALLERY: like.new_zeros(size, size),
            ROUTER: like.new_zeros(2),
        }

    def gradient(self, look: Look, memory: Any) -> Update:
        """Confident pseudo-labels minus the balance of the batch's summed prediction."""
        seen = look.now
        query_side, gallery_side = self._branches(seen)
        side = self._route(seen, look.seed)
        absent = torch.isneginf(query_side)  # zero weight times -inf would be NaN
        query_side, gallery_side = (s.masked_fill(absent, 0) for s in (query_side, gallery_side))
        mixed = (side * query_side + (1 - side) * gallery_side).masked_fill(absent, -torch.inf)
        logs = mixed.div(self.tau).log_softmax(dim=1)
        first = logs.amax(dim=1)
        sure = (first.detach().exp() > self.confidence).to(first.dtype)
        labels = -(first * sure).sum() / sure.sum().clamp(min=1)
        balance = entropy(seen.summed(logs.exp())[None]).squeeze(0)
        return Update(seen.pull(self.label_weight * labels - balance)[0])

    def view(self, seen: Retrieval, memory: Any) -> Retrieval:
        """Both branches at once: the mean of two similarities is one product of longer vectors."""
        queries = torch.cat((_mapped(seen.vectors, seen.own[QUERY]), seen.vectors), dim=1)
        with torch.no_grad():
            plain = seen.gallery.vectors.to(seen.vectors)
            both = torch.cat((plain, _mapped(plain, seen.own[GALLERY])), dim=2) / 2**0.5
        gallery = Gallery(seen.gallery.ids, both)
        return replace(seen, vectors=queries / 2**0.5, gallery=gallery, found={})

    def _branches(self, seen: Retrieval) -> tuple[Tensor, Tensor]:
        """Similarity (B, N) with the queries mapped, and with the candidates mapped."""
        queries = _mapped(seen.vectors, seen.own[QUERY])
        candidates = partial(_mapped, residual=seen.own[GALLERY])
        return seen.scored(queries), seen.scored(seen.vectors, candidates)

    def _route(self, seen: Retrieval, seed: int) -> Tensor:
        """(B, 1): near 1 where the query side is trained, near 0 where the gallery side is."""
        generator = torch.Generator().manual_seed(seed)
        shape, wide = (len(seen), 2), torch.float64
        uniform = torch.rand(shape, generator=generator, dtype=wide, device="cpu")
        noise = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12))).to(seen.vectors)
        drawn = (seen.own[ROUTER] + noise) / self.router_temperature
        return drawn.softmax(dim=1)[:, :1]


def _mapped(vectors: Tensor, residual: Tensor) -> Tensor:
    """Vectors times (I + residual), back at unit length."""
    return normalize(vectors + vectors @ residual.to(vectors.dtype), dim=-1)
