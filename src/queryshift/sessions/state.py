"""The state of a session: everything it has learnt, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike
from queryshift.support.lazy import lazy_property


@dataclass(frozen=True)
class State:
    """Everything that a session has learnt. A value: every batch makes a new one."""

    layout: Layout
    adapted: Adapted
    memory: Any  # the method's
    watched: SourceLike  # source-like pairs, for the statistics of methods that keep none
    batches: int = 0
    resets: int = 0
    ordinary_streak: int = 0  # ordinary batches in a row: from the first on the source answers
    chances: Tensor = field(default_factory=lambda: torch.empty(0))  # of the latest queries
    rate: float = 0.0  # that the stream gave; 0: none yet
    stages: Mapping[str, Any] = field(default_factory=dict)  # each re-ranking stage's memory

    @lazy_property
    def learnt(self) -> Params:
        """The adapted parameters by name, views of one vector."""
        return self.layout.split(self.adapted.values)

    @property
    def finite(self) -> bool:
        """Whether the adapted parameters hold no NaN and no infinity."""
        return bool(torch.isfinite(self.adapted.values).all())

    def narrowed(self, reached: Params) -> State:
        """The state without parameters that a gradient does not reach."""
        names = [name for name in self.layout.shapes if name in reached]
        layout = Layout.of({name: self.learnt[name] for name in names})
        return replace(self, layout=layout, adapted=Adapted.fresh(layout.flat(self.learnt)))
