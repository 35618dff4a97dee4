"""The default session without one of its rules: variants of the development comparison."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from queryshift import InfoMax
from queryshift.methods.base import Method
from queryshift.retrieval.hubness import hub_correction
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.sessions import policy, step

LEARN = step.learn


def _one(*_: Any) -> Tensor:
    return torch.ones(())


def _no_copies(keys: Tensor) -> Tensor:
    return torch.zeros_like(keys, dtype=torch.bool)


def _at_full_pace(*given: Any, **named: Any) -> Any:
    """`step.learn` at the rate of a batch that the source model is wholly uncertain about."""
    adaptation, state, batch, rows, _, views = given
    return LEARN(adaptation, state, batch, rows, 1.0, views, **named)


def _whole(*_: Any) -> float:
    return 1.0


def _also_where_it_crowds(hubs: Hubs, uncertainty: Tensor, bank: QueryBank) -> Tensor:
    return uncertainty * min(1.0, (len(bank) - 1) / (policy.LATEST - 1))


PATCHES: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "always uncertain": [(policy, "doubt", _one), (hub_correction, "doubt", _one)],
    "coincidence does not lower the uncertainty": [(policy, "shared", _one)],
    "repeats teach and count": [(policy, "repeated", _no_copies)],
    "rate not times the uncertainty": [(step, "learn", _at_full_pace)],
    "rate does not fall": [(InfoMax, "gradient", Method.gradient)],
    "every step sees the whole batch": [(InfoMax, "step_share", _whole)],
    "hub correction may crowd": [(Hubs, "strength", _also_where_it_crowds)],
}
"""What replaces a rule's part: owner, name, replacement."""

SETTINGS: dict[str, str] = {
    "batches without spread teach": "spread=0.0",
    "two different queries teach": "sessions.policy:FEW=2",
    "collapse is not looked for": "collapse=1.0",
    "the rate of the first batch": "recommended=0",
    "no hub correction": "hubs=null",
    "weight at most 1": "sessions.policy:MOST=1.0",
    "weight at most 0.5": "sessions.policy:MOST=0.5",
}
"""Rules that a setting or a constant switches off, as a variant of the comparison."""

NAMES = (*PATCHES, *SETTINGS)


def patches(name: str) -> list[AbstractContextManager[Any]]:
    """What is patched for a variant of `PATCHES`."""
    return [patch.object(*one) for one in PATCHES[name]]
