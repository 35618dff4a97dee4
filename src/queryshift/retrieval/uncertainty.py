"""How unsure queries are of their first places, from how their best scores are spaced."""

from __future__ import annotations

import torch
from torch import Tensor

from .forward import Forward

FIRST = 5
"""Gaps one of which is wide where a query knows its answer, be it one candidate or up to five."""
BEST = 21
"""Best scores of a query that are looked at."""
SURE = 0.7
"""Twice the mean chance, below which queries are in no doubt; at 1 they know nothing."""
LATEST = 64
"""Latest queries, at least, that the doubt is the mean over."""


def chances(best: Tensor) -> Tensor:
    """The chance (B,) that the best scores of a query stand out as far by accident.

    The gaps between the largest of many random numbers shrink like 1, 1/2, 1/3, ...: times their
    rank they are alike. Where none of the first five is wide next to those behind them, nothing
    stands out. The chance is 0.5 on average for queries that know nothing.

    Args:
        best: The best scores (B, k) of each query, best first.

    Returns:
        A number between 0 and 1 for each; half a doubt where there are fewer than seven scores.
    """
    gaps = best[:, :-1] - best[:, 1:]
    if gaps.shape[1] <= FIRST:
        return best.new_full((len(best),), (1 + SURE) / 4)
    alike = gaps * torch.arange(1, gaps.shape[1] + 1, device=gaps.device)
    usual = alike[:, FIRST:].mean(dim=1).clamp(min=torch.finfo(best.dtype).tiny)
    widest = alike[:, :FIRST].amax(dim=1) / usual
    return 1 - (1 - torch.exp(-widest)) ** FIRST


@torch.no_grad()
def chances_of(forward: Forward) -> Tensor:
    """The chances (B,) of a forward's queries, computed once.

    Of a small gallery only the first part is a tail.

    Args:
        forward: The batch.

    Returns:
        As `chances`.
    """
    if "chances" not in forward.cache:
        best = forward.hits(BEST).scores[:, : len(forward.gallery) // (FIRST + 1)]
        forward.cache["chances"] = chances(best)
    kept: Tensor = forward.cache["chances"]
    return kept


def doubt(chance: Tensor) -> Tensor:
    """How much in doubt queries are that stand out with these chances (n,).

    Args:
        chance: The chance of each, as `chances` gives it.

    Returns:
        A number between 0 and 1.
    """
    return ((2 * chance.mean() - SURE) / (1 - SURE)).clamp(0, 1)


def no_doubt(device: torch.device) -> Tensor:
    """The chances (LATEST,) of a stream before its first query: those of queries in no doubt."""
    return torch.full((LATEST,), SURE / 2, device=device)


def latest(before: Tensor, chance: Tensor) -> Tensor:
    """The chances of a batch, of few queries together with the latest before them.

    Args:
        before: The chances (n,) so far.
        chance: Those of the batch (B,).

    Returns:
        The chances (at least `LATEST`) that the doubt is the mean over.
    """
    return torch.cat((before, chance.to(before)))[-max(LATEST, len(chance)) :]
