"""Similarity of queries to candidates of one or several vectors."""

from __future__ import annotations

import torch
from torch import Tensor


def similarity(queries: Tensor, candidates: Tensor) -> Tensor:
    """Best similarity (B, N) of queries (B, D) to candidates of several vectors (N, V, D)."""
    scores = queries @ candidates.flatten(0, 1).T
    if candidates.shape[1] == 1:
        return scores
    return scores.view(len(queries), *candidates.shape[:2]).amax(dim=2)


def best_vectors(queries: Tensor, candidates: Tensor) -> Tensor:
    """Of each query's own candidate (B, V, D), the vector (B, D) nearest to the query."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    with torch.no_grad():
        best = (candidates @ queries[:, :, None]).squeeze(2).argmax(dim=1)
    return candidates[torch.arange(len(candidates), device=candidates.device), best]
