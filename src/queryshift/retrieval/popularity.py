"""How often candidates are asked for, from the first places that past queries gave."""

from __future__ import annotations

import torch
from torch import Tensor

BY_CHANCE = 2
"""First places that a candidate may have by mistake: only those beyond them tell of popularity."""


def popularity(
    claims: Tensor, positions: Tensor, candidates: int, by_chance: int = BY_CHANCE
) -> Tensor:
    """How many times the average candidate's share each of some is asked for.

    Args:
        claims: Positions (n,) of past queries' first places.
        positions: Positions (L,) of the candidates that are asked about.
        candidates: How many there are in all.
        by_chance: First places that a candidate may have by mistake.

    Returns:
        A number (L,) for each; 1 for all where no candidate is claimed more often than by chance.
    """
    claimed, counts = torch.unique(claims, return_counts=True)
    beyond = (counts - by_chance).clamp(min=0).double()
    total = float(beyond.sum())
    if total == 0:
        return torch.ones(len(positions), device=positions.device)
    share = total / len(claims)
    place = torch.searchsorted(claimed, positions).clamp(max=len(claimed) - 1)
    own = torch.where(claimed[place] == positions, beyond[place], 0.0)
    return ((1 - share) + candidates * share * own / total).float()
