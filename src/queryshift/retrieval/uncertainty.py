"""How uncertain a model is about queries, from the gaps between their best scores."""

from __future__ import annotations

import torch
from torch import Tensor

from .forward import Forward

FIRST = 5
"""Leading gaps: one of them is wide if a query has a clear answer of up to five candidates."""
BEST = 21
"""Number of best scores of a query that are used."""
SURE = 0.7
"""Twice the mean chance up to which the uncertainty is 0; at 1 it is 1."""
LATEST = 64
"""Least number of queries that the uncertainty is averaged over."""


def chances(best: Tensor) -> Tensor:
    """The probability (B,) that gaps this wide between a query's best scores are chance.

    The gaps between the largest of many random numbers shrink like 1, 1/2, 1/3, ...; multiplied by
    their rank they have equal means. The widest of the first five such products is compared with
    the mean of the others. For queries without any clear answer the probability is 0.5 on average.

    Args:
        best: The best scores (B, k) of each query, best first.

    Returns:
        A number between 0 and 1 for each; the one of half uncertainty for less than seven scores.
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

    In a small gallery only the first part of the scores is used.

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
    """The uncertainty of queries with these chances (n,).

    Args:
        chance: The chance of each, as `chances` gives it.

    Returns:
        A number between 0 and 1.
    """
    return ((2 * chance.mean() - SURE) / (1 - SURE)).clamp(0, 1)


def no_doubt(device: torch.device) -> Tensor:
    """The chances (LATEST,) of a stream before its first query: no uncertainty."""
    return torch.full((LATEST,), SURE / 2, device=device)


def latest(before: Tensor, batch: Tensor) -> Tensor:
    """What is known of the queries of a batch; of a small one, together with the latest before it.

    Args:
        before: The rows (n, ...) so far, one for each query.
        batch: Those of the batch (B, ...).

    Returns:
        The rows of the batch, and earlier ones up to `LATEST`.
    """
    return torch.cat((before, batch.to(before)))[-max(LATEST, len(batch)) :]
