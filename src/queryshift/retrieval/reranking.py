"""Re-ranking stages: what happens to a ranking between the gallery's scores and the answer.

Stages come after the method's view and the guard, in the order in which a session has them. Losses
and guards see the uncorrected scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from queryshift.encoders.prepared import take
from queryshift.galleries import Hits, Searchable

from .forward import Forward

UNMATCHED = 100.0  # what candidates beyond the re-ranked ones are set back by, as published


class Ranking(Protocol):
    """An order of the candidates for each query of a batch."""

    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query."""

    def all_scores(self) -> Tensor:
        """The score (B, N) of every candidate, -inf where it is excluded."""


class Stage(Protocol):
    """One re-ranking stage. It keeps no state: what it remembers is its memory in the session's."""

    @property
    def name(self) -> str:
        """Under which its memory is kept."""

    @property
    def learns(self) -> bool:
        """Whether it ranks by what the stream was: the source's own answers go without it."""

    def start(self, gallery: Searchable, device: torch.device) -> Any:
        """The memory before the first batch."""

    def moved(self, memory: Any, gallery: Searchable) -> Any:
        """The memory after the session's gallery was replaced."""

    def check_memory(self, memory: Any, gallery: Searchable) -> None:
        """Refuse, with a ValueError, memory from a file that the next batch could not use."""

    def observe(self, forward: Forward, memory: Any) -> Any:
        """The memory after a batch that was adapted to."""

    def rank(self, forward: Forward, ranking: Ranking, memory: Any) -> Ranking:
        """The ranking of the stage before, ranked anew."""


class MatcherStage:
    """The best hits ranked anew by a matcher's logits (single stream)."""

    name = "matcher"
    learns = False

    def start(self, gallery: Searchable, device: torch.device) -> None:
        """A matcher remembers nothing."""

    def moved(self, memory: None, gallery: Searchable) -> None:
        """A matcher remembers nothing."""

    def check_memory(self, memory: None, gallery: Searchable) -> None:
        """A matcher remembers nothing."""

    def observe(self, forward: Forward, memory: None) -> None:
        """A matcher remembers nothing."""

    def rank(self, forward: Forward, ranking: Ranking, memory: None) -> Ranking:
        """By match logit plus score for the first hits; all others behind them."""
        return MatchedRanking(forward, ranking)


class MatchedRanking:
    """The first hits ordered by match logit plus score, the others set back behind them."""

    def __init__(self, forward: Forward, before: Ranking) -> None:
        self._forward, self.before = forward, before
        self._kept: tuple[int, Hits] | None = None

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` after the first ones were ranked anew."""
        if self._kept is None or self._kept[0] < count:
            self._kept = (count, self._ordered(count))
        return self._kept[1].top(count)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The score of every candidate, with the match logits of the first."""
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
        """Those that are ranked anew."""
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


def ranked(forward: Forward, stages: Sequence[Stage], memories: Any) -> Ranking:
    """The ranking of a forward after all stages; `memories` has each one's memory by name."""
    ranking: Ranking = forward
    for stage in stages:
        ranking = stage.rank(forward, ranking, memories.get(stage.name))
    return ranking
