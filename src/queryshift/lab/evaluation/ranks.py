"""Ranks of right answers from scores; spread and gap of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from queryshift.errors import BadInput

TIE = 4  # roundings by which equal candidates may differ, and still tie


def spread(queries: Tensor) -> float:
    """Mean distance of query vectors (B, D) to their centre (supplement A); low: too compact."""
    return float(torch.linalg.vector_norm(queries - queries.mean(dim=0), dim=1).mean())


def gap(queries: Tensor, candidates: Tensor) -> float:
    """Distance of the queries' centre to the candidates', (N, D) or (N, V, D) (supplement A)."""
    centre = candidates.reshape(-1, candidates.shape[-1]).mean(dim=0)
    return float(torch.linalg.vector_norm(queries.mean(dim=0) - centre))


def ranks(scores: Tensor, relevant: Sequence[Sequence[int]]) -> Tensor:
    """Rank (B,) of each query's best right answer, from 1; a tie counts as a wrong one first."""
    return relevant_ranks(scores, relevant)[:, 0]


@torch.no_grad()
def relevant_ranks(scores: Tensor, relevant: Sequence[Sequence[int]]) -> Tensor:
    """Ranks (B, R) of all right answers of each query, best first, 0 where a query has fewer.

    `scores` (B, N) are those of all candidates in an answer's own order (`Answer.scores`), -inf
    where one is excluded.
    """
    _check(relevant, *scores.shape)
    places, present = _padded(relevant)
    return _ranks_of(scores, places.to(scores.device), present.to(scores.device))


def subset_ranks(
    scores: Tensor, relevant: Sequence[Sequence[int]], subsets: Sequence[Sequence[int]]
) -> Tensor:
    """Rank (B,) of each query's best right answer among its own few candidates (CIRR's subset)."""
    _check(subsets, *scores.shape)
    others = torch.ones_like(scores, dtype=torch.bool)
    for row, (right, few) in enumerate(zip(relevant, subsets, strict=True)):
        others[row, [*few, *right]] = False
    return ranks(scores.masked_fill(others, -torch.inf), relevant)


def recall(ranks: Tensor, k: int) -> float:
    """Percentage of queries with a right answer among the first `k`."""
    return 100 * float((ranks <= k).double().mean())


def _padded(relevant: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Positions (B, R) of the right answers, and where one is (not only room for it)."""
    right = [sorted(set(positions)) for positions in relevant]
    most = max(map(len, relevant))
    places = torch.tensor([row + row[-1:] * (most - len(row)) for row in right])
    present = torch.tensor([[column < len(row) for column in range(most)] for row in right])
    return places, present


def _ranks_of(scores: Tensor, places: Tensor, present: Tensor) -> Tensor:
    """Ranks (b, R) of the right answers in rows (b, N); ties and NaN count as better."""
    own = scores.gather(1, places).masked_fill(~present, -torch.inf)
    own = own.sort(dim=1, descending=True).values
    limit = (own - TIE * torch.finfo(scores.dtype).eps)[:, :, None]
    before = (~(scores[:, None] < limit)).sum(dim=2)  # NaN: all stand before it
    theirs = (~(own[:, None] < limit) & present[:, None]).sum(dim=2)
    ranks = before - theirs + torch.arange(1, own.shape[1] + 1, device=own.device)
    return ranks.masked_fill(~present, 0).cpu()


def _check(relevant: Sequence[Sequence[int]], queries: int, candidates: int) -> None:
    if len(relevant) != queries or not all(len(right) for right in relevant):
        raise BadInput(
            f"got right answers for {sum(map(bool, map(len, relevant)))} of {queries} queries: "
            "give each at least one position in the gallery."
        )
    outside = [p for right in relevant for p in right if not 0 <= p < candidates]
    if outside:
        raise BadInput(
            f"a right answer is at position {outside[0]}, the gallery has {candidates} candidates: "
            "give positions, not ids (`gallery.positions(ids)`)."
        )
