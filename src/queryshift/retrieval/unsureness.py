"""How unsure queries are of their first places, from how their best scores are spaced."""

from __future__ import annotations

import torch
from torch import Tensor

FIRST = 5
"""Gaps one of which is wide where a query knows its answer, be it one candidate or up to five."""
BEST = 21
"""Best scores of a query that are looked at."""
SURE, UNSURE = 0.75, 0.95
"""Twice the mean chance, below which a batch needs no correction and above which all of it."""


def chances(best: Tensor) -> Tensor:
    """The chance (B,) that the best scores of a query stand out as far by accident.

    The gaps between the largest of many random numbers shrink like 1, 1/2, 1/3, ...: times their
    rank they are alike. Where none of the first five is wide next to those behind them, nothing
    stands out. The chance is 0.5 on average for queries that know nothing.

    Args:
        best: The best scores (B, k) of each query, best first.

    Returns:
        A number between 0 and 1 for each; 0 where there are fewer than seven scores.
    """
    gaps = best[:, :-1] - best[:, 1:]
    if gaps.shape[1] <= FIRST:
        return best.new_zeros(len(best))
    alike = gaps * torch.arange(1, gaps.shape[1] + 1, device=gaps.device)
    usual = alike[:, FIRST:].mean(dim=1).clamp(min=torch.finfo(best.dtype).tiny)
    widest = alike[:, :FIRST].amax(dim=1) / usual
    return 1 - (1 - torch.exp(-widest)) ** FIRST


def strength(chance: Tensor) -> Tensor:
    """How much of a correction queries need that stand out with these chances (n,).

    Args:
        chance: The chance of each, as `chances` gives it.

    Returns:
        A number between 0 and 1.
    """
    return ((2 * chance.mean() - SURE) / (UNSURE - SURE)).clamp(0, 1)
