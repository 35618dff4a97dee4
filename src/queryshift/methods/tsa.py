"""TSA (Chen et al., ICML 2025): small extra modules on one side at a time, the encoders frozen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder, Params
from queryshift.galleries import Gallery, Searchable
from queryshift.retrieval.forward import Forward

from .base import Method, StepView, Update, setting
from .losses import entropy

QUERY, GALLERY, ROUTER = "tsa.query", "tsa.gallery", "tsa.router"


@dataclass(frozen=True, kw_only=True)
class TSA(Method):
    """A small linear map of the query vectors and one of the candidate vectors.

    Args:
        confidence: Least probability of a pseudo-label.
        label_weight: Weight of the pseudo-label term.
        router_temperature: Temperature of the Gumbel-softmax draw.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.TSA(lr=1e-4))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

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

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """Confident pseudo-labels minus the balance of the batch's summed prediction."""
        forward = step_view.now
        query_side, gallery_side = self._branches(forward)
        side = self._route(forward, step_view.seed)
        absent = torch.isneginf(query_side)  # zero weight times -inf would be NaN
        query_side, gallery_side = (s.masked_fill(absent, 0) for s in (query_side, gallery_side))
        mixed = (side * query_side + (1 - side) * gallery_side).masked_fill(absent, -torch.inf)
        logs = mixed.div(self.tau).log_softmax(dim=1)
        first = logs.amax(dim=1)
        sure = (first.detach().exp() > self.confidence).to(first.dtype)
        labels = -(first * sure).sum() / sure.sum().clamp(min=1)
        balance = entropy(forward.summed(logs.exp())[None]).squeeze(0)
        return Update(forward.gradients(self.label_weight * labels - balance)[0])

    def view(self, forward: Forward, memory: Any) -> Forward:
        """Both branches at once: the mean of two similarities is one product of longer vectors."""
        vectors, params = forward.vectors, forward.direct_params
        queries = torch.cat((_mapped(vectors, params[QUERY]), vectors), dim=1)
        with torch.no_grad():
            plain = forward.gallery.vectors.to(vectors)
            both = torch.cat((plain, _mapped(plain, params[GALLERY])), dim=2) / 2**0.5
        every = torch.arange(len(both), device="cpu")
        gallery = Gallery(forward.gallery.ids_at(every[None])[0], both)
        return forward.moved(queries / 2**0.5, gallery)

    def _branches(self, forward: Forward) -> tuple[Tensor, Tensor]:
        """Similarity (B, N) with the queries mapped, and with the candidates mapped."""
        queries = _mapped(forward.vectors, forward.direct_params[QUERY])
        candidates = partial(_mapped, residual=forward.direct_params[GALLERY])
        return forward.scored(queries), forward.scored(forward.vectors, candidates)

    def _route(self, forward: Forward, seed: int) -> Tensor:
        """(B, 1): near 1 where the query side is trained, near 0 where the gallery side is."""
        generator = torch.Generator().manual_seed(seed)
        shape, wide = (len(forward), 2), torch.float64
        uniform = torch.rand(shape, generator=generator, dtype=wide, device="cpu")
        noise = -torch.log(-torch.log(uniform.clamp(min=1e-12))).to(forward.vectors)
        drawn = (forward.direct_params[ROUTER] + noise) / self.router_temperature
        return drawn.softmax(dim=1)[:, :1]


def _mapped(vectors: Tensor, residual: Tensor) -> Tensor:
    """Vectors times (I + residual), back at unit length."""
    return normalize(vectors + vectors @ residual.to(vectors.dtype), dim=-1)
