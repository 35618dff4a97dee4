"""Candidates among the first hits of some query of a batch: they stand for the whole gallery."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.galleries.exclusions import excluded_cells

from .forward import Forward, similarity

SMALLEST_SPREAD = 1e-4


@dataclass(frozen=True)
class Listed:
    """The listed candidates, each once, and every query's similarity to them."""

    positions: Tensor  # (L,) in the gallery
    scores: Tensor  # (B, L) with a graph to the vectors; -inf where a candidate is excluded
    excludes: bool  # whether candidates are excluded

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the similarities: the scale that temperatures are parts of."""
        scores = self.scores.detach()
        if self.excludes:
            scores = scores[torch.isfinite(scores)]  # waits for a GPU
            if not len(scores):
                return torch.ones((), device=scores.device)
        return scores.std(correction=0).clamp(min=SMALLEST_SPREAD)


def listed(forward: Forward, neighbours: int) -> Listed:
    """The candidates among the best `neighbours` of some query; computed once per forward."""
    key = ("listed", neighbours)
    if key not in forward.cache:
        hits = forward.hits(neighbours)
        positions = torch.unique(hits.positions)
        vectors = hits.candidates.vectors_at(positions[None])[0].to(forward.vectors)
        with torch.enable_grad():  # the first caller may need no graph, a later one will
            scores = similarity(forward.vectors, vectors)
            if forward.exclude is not None:
                hidden = torch.zeros_like(scores, dtype=torch.bool)
                hidden[excluded_cells(forward.exclude, hidden.shape, columns=positions)] = True
                scores = scores.masked_fill(hidden, -torch.inf)
        forward.cache[key] = Listed(positions, scores, forward.exclude is not None)
    kept: Listed = forward.cache[key]
    return kept
