"""Re-ranking stages between the gallery's scores and the answer; losses see none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from queryshift.encoders.prepared import take
from queryshift.galleries import Hits, Searchable

from .forward import Forward

UNMATCHED = 100.0  # subtracted from candidates that are not reranked, as published


class Ranking(Protocol):
    """An order of the candidates for each query of a batch."""

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query."""

    def all_scores(self) -> Tensor:
        """The score (B, N) of every candidate, -inf where it is excluded."""


class Stage:
    """One re-ranking stage. Its memory is part of the session's state; by default it has none."""

    name: ClassVar[str]
    """The key of its memory."""

    learns: ClassVar[bool] = False
    """Whether it learns from the stream: the source model's answers go without it."""

    def start(self, gallery: Searchable, device: torch.device) -> Any:
        """The memory before the first batch."""

    def moved(self, memory: Any, gallery: Searchable) -> Any:
        """The memory for another gallery."""

    def check_memory(self, memory: Any, gallery: Searchable) -> None:
        """Refuse, with a ValueError, memory from a file that does not fit."""

    def observe(self, forward: Forward, memory: Any) -> Any:
        """The memory after a batch that was adapted to."""

    def rank(self, forward: Forward, ranking: Ranking, memory: Any) -> Ranking:
        """Rerank the ranking of the stage before."""
        raise NotImplementedError


class MatcherStage(Stage):
    """Reranks the best hits by a matcher's logits (single stream)."""

    name = "matcher"

    def rank(self, forward: Forward, ranking: Ranking, memory: None) -> Ranking:
        """Order the best hits by match logit plus score, before all others."""
        return MatchedRanking(forward, ranking)


class MatchedRanking:
    """The best hits by match logit plus score, then all others."""

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
