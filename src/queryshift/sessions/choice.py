"""Who answers a batch: what was learnt, or the source where it does as well."""

from __future__ import annotations

import torch

from queryshift.retrieval.forward import Forward
from queryshift.retrieval.listed import listed
from queryshift.retrieval.reranking import Ranking

AGREEING = 0.9  # share of equal first places from which a change is too small to be trusted
MARGIN = 0.02  # of mean probability, by which the adapted answers must be surer
LISTED, PART = 10, 8.0


@torch.no_grad()
def surer(adapted: Forward, source: Forward) -> bool:
    """Whether what was learnt is surer of a batch's first places than the source is of its own.

    Args:
        adapted: The batch, seen through what was learnt.
        source: The batch, seen by the source model.

    Returns:
        True where the mean largest probability has grown.
    """
    means = [listed(one, LISTED).sureness(PART).mean() for one in (adapted, source)]
    now, before = torch.stack(means).tolist()
    return bool(now > before + MARGIN)


@torch.no_grad()
def agree(one: Ranking, other: Ranking) -> bool:
    """Whether two rankings of a batch have nine of ten first places in common."""
    same = one.hits(1).positions == other.hits(1).positions
    return float(same.double().mean()) >= AGREEING
