"""Re-ranking of the best hits by a matcher; losses do not see it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from queryshift.encoders.prepared import take
from queryshift.galleries import Hits

from .forward import Forward

UNMATCHED = 100.0  # subtracted from candidates that are not reranked, as published


class Ranking(Protocol):
    """An order of the candidates for each query of a batch."""

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query."""

    def all_scores(self) -> Tensor:
        """The score (B, N) of every candidate, -inf where it is excluded."""


class MatchedRanking:
    """The best hits by a matcher's logit plus score (single stream), then all others."""

    def __init__(self, forward: Forward, before: Ranking) -> None:
        self._forward, self.before = forward, before
        self._kept: tuple[int, Hits] | None = None

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates after re-ranking."""
        if self._kept is None or self._kept[0] < count:
            self._kept = (count, self._ordered(count))
        return self._kept[1].top(count)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The score of every candidate, with match logits for the best hits."""
        scores = self.before.all_scores() - UNMATCHED
        first = self._first_hits(1)
        raised = UNMATCHED + self._match_logits(first.positions)
        return scores.scatter_add(1, first.positions, raised.to(scores))

    def _ordered(self, count: int) -> Hits:
        first = self._first_hits(1).positions
        plain = self.before.hits(max(count, first.shape[1]))
        scores = plain.scores - UNMATCHED
        scores[:, : first.shape[1]] += UNMATCHED + self._match_logits(first)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return replace(plain, scores=scores, positions=plain.positions.gather(1, order))

    def _first_hits(self, count: int) -> Hits:
        """The hits that are reranked."""
        matching, _ = self._forward.matcher_input
        return self.before.hits(max(count, matching.matcher.rerank))

    def _match_logits(self, positions: Tensor) -> Tensor:
        """Match logit (B, k), a few queries at a time."""
        forward = self._forward
        matching, readings = forward.matcher_input
        positions = forward.matcher_places(positions)
        size = max(1, matching.matcher.pairs_at_once // positions.shape[1])
        logits = [
            matching.logits(
                forward.direct_params,
                take(readings, slice(start, start + size)),
                positions[start : start + size],
            )
            for start in range(0, len(positions), size)
        ]
        return torch.cat(logits)[..., 1]
