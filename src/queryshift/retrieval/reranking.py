"""Answers of the single-stream model: the best hits ranked anew by a matcher."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from queryshift.encoders.prepared import take
from queryshift.galleries import Hits

from .forward import Forward

UNMATCHED = 100.0  # what candidates beyond the reranked ones are set back by, as published


@dataclass(frozen=True, eq=False)
class Reranked(Forward):
    """A retrieval whose best hits are ordered by match logit plus cosine."""

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` after the first ones were ranked anew."""
        asked, known = self.hit_cache.get("reranked", (0, None))
        if known is None or asked < count:
            known = self._ordered(count)
            self.hit_cache["reranked"] = (count, known)
        return known.top(count)

    def _ordered(self, count: int) -> Hits:
        assert self.matching is not None
        plain = super().hits(max(count, self.matching.matcher.rerank))
        first = min(self.matching.matcher.rerank, plain.positions.shape[1])
        scores = plain.scores - UNMATCHED
        scores[:, :first] += UNMATCHED + self._match_logits(plain.positions[:, :first])
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        rows = torch.arange(len(scores), device=scores.device)[:, None]
        return replace(
            plain,
            scores=scores,
            positions=plain.positions.gather(1, order),
            vectors=plain.vectors[rows, order],
        )

    def _match_logits(self, positions: torch.Tensor) -> torch.Tensor:
        """Match logit (B, k), a few queries at a time."""
        assert self.matching is not None and self.readings is not None
        size = max(1, self.matching.matcher.pairs_at_once // positions.shape[1])
        parts = [
            self.matching.logits(
                self.direct_params, take(self.readings, slice(i, i + size)), positions[i : i + size]
            )
            for i in range(0, len(positions), size)
        ]
        return torch.cat(parts)[..., 1]


def reranked(forward: Forward) -> Forward:
    """The retrieval with its hits ranked anew, if its session has a matcher."""
    if forward.matching is None or isinstance(forward, Reranked):
        return forward
    values = {one.name: getattr(forward, one.name) for one in fields(Forward)}
    return Reranked(**{**values, "hit_cache": dict(forward.hit_cache)})
