"""Who answers a query: what was learnt, or the source where it does as well."""

from __future__ import annotations

import torch
from torch import Tensor

from queryshift.galleries import Hits
from queryshift.galleries.met import MetCandidates
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import Ranking

from .guard import leads

AGREEING = 0.8  # share of equal first places from which the source answers a batch
FOUND, BEST = 0.9, 10  # share of the source's first places that are found among so many best ones
CLEARER = 1.15  # times the source's lead, from which a query is answered by what was learnt


@torch.no_grad()
def source_rows(adapted: Forward, order: Ranking, source: Forward) -> Tensor:
    """Which queries of a batch the source answers.

    None, unless four of five first places would be the same; then all but those of which the
    adapted model is clearer: its first hit leads by 1.15 times as much.

    Args:
        adapted: The batch, seen through what was learnt.
        order: Its order of candidates, after all re-ranking.
        source: The batch, seen by the source model.

    Returns:
        True (B,) for those queries.
    """
    return agree(order, source) & (leads(adapted) <= CLEARER * leads(source))


@torch.no_grad()
def agree(one: Ranking, other: Ranking) -> Tensor:
    """Whether two rankings of a batch have four of five first places in common."""
    same = one.hits(1).positions[:, 0] == other.hits(1).positions[:, 0]
    return same.float().mean() >= AGREEING


@torch.no_grad()
def finds(one: Ranking, other: Ranking) -> Tensor:
    """Whether one ranking has nine of ten of another's first places among its ten best.

    Two models that are right do not agree on first places where several candidates are right.
    """
    found = one.hits(BEST).positions == other.hits(1).positions[:, :1]
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
