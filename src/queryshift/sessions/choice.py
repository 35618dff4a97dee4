"""Who answers a query: what was learnt, or the source where it does as well."""

from __future__ import annotations

import torch
from torch import Tensor

from queryshift.galleries import Hits
from queryshift.galleries.met import MetCandidates
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import Ranking
from queryshift.retrieval.unsureness import BEST, chances

from .guard import leads

AGREEING = 0.7  # share of equal first places from which the source may answer
BY_ACCIDENT = 0.5  # mean chance that a first place stands out as far, of queries that know nothing
CLEARER = 1.3  # times the source's lead, from which a query is answered by what was learnt
FOUND, AMONG = 0.9, 10  # share of the source's first places that are found among so many best ones


@torch.no_grad()
def source_rows(adapted: Forward, order: Ranking, source: Forward) -> Tensor:
    """Which queries of a batch the source answers.

    None, unless its first places stand out more than by accident, or seven of ten would be the
    same; then all but those of which the adapted model is clearer: its first hit leads by 1.3 times
    as much. Those too where first places that stand out are not even among its ten best: what was
    learnt is of other queries.

    Args:
        adapted: The batch, seen through what was learnt.
        order: Its order of candidates, after all re-ranking.
        source: The batch, seen by the source model.

    Returns:
        True (B,) for those queries.
    """
    known = stands_out(source)  # first: its search serves all the others
    as_clear = leads(adapted) <= CLEARER * leads(source)
    return ((known | agree(order, source)) & as_clear) | (known & ~finds(order, source))


@torch.no_grad()
def stands_out(source: Forward) -> Tensor:
    """Whether first places stand out more than by accident, in the mean over a batch."""
    scores = source.hits(BEST).scores
    if scores.shape[1] < BEST:  # too few candidates to tell
        return torch.zeros((), dtype=torch.bool, device=scores.device)
    return chances(scores).mean() < BY_ACCIDENT


@torch.no_grad()
def agree(one: Ranking, other: Ranking) -> Tensor:
    """Whether two rankings of a batch have seven of ten first places in common."""
    same = one.hits(1).positions[:, 0] == other.hits(1).positions[:, 0]
    return same.float().mean() >= AGREEING


@torch.no_grad()
def finds(one: Ranking, other: Ranking) -> Tensor:
    """Whether one ranking has nine of ten of another's first places among its ten best.

    Two models that are right do not agree on first places where several candidates are right.
    """
    found = one.hits(AMONG).positions == other.hits(1).positions[:, :1]
    return found.any(dim=1).float().mean() >= FOUND


class RankingByRow:
    """One ranking for some queries of a batch, another for the others.

    Args:
        rows: Which queries (B,) the first is for.
        some: Their ranking.
        others: That of the others.
    """

    def __init__(self, rows: Tensor, some: Ranking, others: Ranking) -> None:
        self._rows, self._some, self._others = rows[:, None], some, others

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates of each query by its own ranking."""
        some, others = self._some.hits(count), self._others.hits(count)
        candidates, more = some.candidates, others.candidates
        if isinstance(candidates, MetCandidates) and isinstance(more, MetCandidates):
            candidates = candidates.joined(more)  # an engine was searched for each
        width = min(some.positions.shape[1], others.positions.shape[1])
        parts = ((one.positions[:, :width], one.scores[:, :width]) for one in (some, others))
        merged = [torch.where(self._rows, one, other) for one, other in zip(*parts, strict=True)]
        return Hits(merged[0], merged[1], candidates)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The score (B, N) of every candidate by each query's own ranking."""
        return torch.where(self._rows, self._some.all_scores(), self._others.all_scores())
