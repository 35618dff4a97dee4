"""Which forward answers a batch: the adapted one, or the source's where it does as well."""

from __future__ import annotations

import torch

from queryshift.retrieval.forward import Forward
from queryshift.retrieval.listed import listed

AGREEING = 0.9  # share of equal first places from which adaptation changes too little to trust
MARGIN = 0.02  # of mean probability, by which the adapted answers must be surer
LISTED, PART = 10, 8.0


@torch.no_grad()
def source_suffices(adapted: Forward, source: Forward) -> bool:
    """Whether the source should answer a batch: nearly the same first places, or as sure of them.

    Args:
        adapted: The batch, seen through what was learnt.
        source: The batch, seen by the source model.

    Returns:
        True where nine of ten first places are equal, or the adapted ones are no surer.
    """
    same = adapted.hits(1).positions == source.hits(1).positions
    if float(same.double().mean()) >= AGREEING:
        return True
    sure, source_sure = (listed(one, LISTED).sureness(PART).mean() for one in (adapted, source))
    return float(source_sure) >= float(sure) - MARGIN
