"""Exact search over vectors in memory, in chunks, in float32 or wider."""

from __future__ import annotations

import torch
from torch import Tensor

from queryshift.errors import BadInput

from .exclusions import mask_excluded

CHUNK_SCORES = 2**23  # scores held at once: 32 MB in float32
CHUNK_VALUES = 2**25  # numbers of candidates made wide at once: 128 MB in float32


def best_positions(
    queries: Tensor, candidates: Tensor, count: int, exclude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Positions and scores (B, count) of the best candidates (N, V, D), best first.

    `queries` (B, D) are wide, and on the candidates' device; `exclude` holds (query, position)
    pairs; at most `count` candidates must be left for each query.
    """
    positions = torch.empty(len(queries), 0, dtype=torch.long, device=queries.device)
    scores = queries.new_empty(len(queries), 0)
    width = _width(len(queries), candidates)
    for start in range(0, len(candidates), width):
        chunk = _scores(queries, candidates[start : start + width])
        if exclude is not None:
            chunk = mask_excluded(chunk, exclude, columns=start)
        best, columns = chunk.topk(min(count, chunk.shape[1]), dim=1)
        if scores.shape[1] == 0:
            scores, positions = best, columns + start
            continue
        joined = torch.cat((scores, best), dim=1)
        scores, order = joined.topk(min(count, joined.shape[1]), dim=1)
        positions = torch.cat((positions, columns + start), dim=1).gather(1, order)
    return positions, scores


def left_for_all(candidates: int, exclude: Tensor | None) -> int:
    """How many of the candidates every query has left after exclusion."""
    most = 0 if exclude is None or len(exclude) == 0 else int(exclude[:, 0].bincount().max())
    if most >= candidates:
        raise BadInput(f"all {candidates} candidates are excluded for a query: leave some.")
    return candidates - most


def _width(queries: int, candidates: Tensor) -> int:
    """Candidates to score at once: their scores, and their vectors made wide, are bounded."""
    several, dimension = candidates.shape[1:]
    scores = CHUNK_SCORES // max(1, queries * several)
    return max(1, min(scores, CHUNK_VALUES // (several * dimension)))


def _scores(queries: Tensor, candidates: Tensor) -> Tensor:
    """Similarity (B, C) to a chunk of candidates (C, V, D), each as near as its nearest vector."""
    scores = queries @ candidates.to(queries.dtype).flatten(0, 1).T
    if candidates.shape[1] > 1:
        scores = scores.view(len(queries), *candidates.shape[:2]).amax(dim=2)
    return scores
