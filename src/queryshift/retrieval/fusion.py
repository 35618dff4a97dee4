"""The source model's ranking and the adapted one as one: a mixture of both predictions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from queryshift.galleries import Hits
from queryshift.galleries.seen_candidates import SeenCandidates

from .reranking import Ranking

SHORTLIST = 100
"""Number of best candidates in a model's prediction."""
BEHIND = 100.0  # subtracted from candidates on neither shortlist


class FusedRanking:
    """Candidates by `(1 - weight) * p_source + weight * p_adapted`.

    Each prediction is a softmax over the ranking's own 100 best candidates. The temperature is the
    standard deviation of the source's 100 best scores, so that for each query a model with nearly
    equal scores counts little. Candidates on neither shortlist follow in the adapted order.

    Args:
        source: The source model's ranking.
        adapted: The adapted model's, after correction.
        weight: Of the adapted model, between 0 and 1.
    """

    def __init__(self, source: Ranking, adapted: Ranking, weight: float) -> None:
        self._source, self._adapted, self._weight = source, adapted, weight

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates; scores are probabilities, 0 outside both shortlists."""
        source, adapted, positions, scores = self._union(max(count, SHORTLIST))
        width = min(count, adapted.positions.shape[1])
        candidates, more = adapted.candidates, source.candidates
        if isinstance(candidates, SeenCandidates) and isinstance(more, SeenCandidates):
            candidates = candidates.joined(more)  # an engine was searched for each
        return Hits(positions[:, :width], scores[:, :width], candidates)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The probability (B, N) of every candidate; the others follow in the adapted order."""
        _, _, positions, scores = self._union(SHORTLIST)
        behind = self._adapted.all_scores() - BEHIND
        return behind.scatter_reduce(1, positions, scores.to(behind), "amax")

    def _union(self, depth: int) -> tuple[Hits, Hits, Tensor, Tensor]:
        """Both lists, and their candidates (B, 2 depth) best first; duplicates score -inf."""
        source, adapted = self._source.hits(depth), self._adapted.hits(depth)
        spread = source.scores[:, :SHORTLIST].std(dim=1, correction=0, keepdim=True)
        unit = spread.clamp(min=torch.finfo(spread.dtype).tiny)
        of_source = (1 - self._weight) * _predicted(source.scores, unit)
        of_adapted = self._weight * _predicted(adapted.scores, unit)
        same = adapted.positions[:, :, None] == source.positions[:, None]
        joint = of_adapted + (same * of_source[:, None]).sum(dim=2)
        alone = of_source.masked_fill(same.any(dim=1), -torch.inf)
        scores, order = torch.cat((joint, alone), dim=1).sort(dim=1, descending=True, stable=True)
        positions = torch.cat((adapted.positions, source.positions), dim=1).gather(1, order)
        return source, adapted, positions, scores


def _predicted(scores: Tensor, unit: Tensor) -> Tensor:
    """The softmax (B, k) over the best candidates, 0 for the others."""
    shares = (scores[:, :SHORTLIST] / unit).softmax(dim=1)
    return pad(shares, (0, max(0, scores.shape[1] - SHORTLIST)))
