"""What a batch leads to: a proposal while it is looked at, then its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Forward

from .batch_stats import BatchStats
from .events import Event
from .state import State


@dataclass(frozen=True)
class BatchResult:
    """What one batch gives: the next state, the answer, its statistics, and what happened."""

    state: State
    answer: Answer
    stats: BatchStats
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """What a batch leads to, if nothing is wrong with it."""

    state: State
    forward: Forward  # answers the batch
    first: Forward | None = None  # of the first step, before any update; None: none was taken
    measures: Mapping[str, Tensor] = field(default_factory=dict)  # of the steps
    ordinary: bool = False  # the guard knows such queries
    weight: float = 1.0  # of this forward in the answer; the source has the rest
    rows: Tensor | None = None  # (B,) queries that stages may remember; None: all
