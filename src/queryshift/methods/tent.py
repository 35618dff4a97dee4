"""Tent (Wang et al., ICLR 2021): make the retrieval confident by minimising its entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..losses import entropy
from ..retrieval import Retrieval
from .base import Method


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Mean entropy over the whole gallery."""

    def loss(self, seen: Retrieval, memory: Any) -> Tensor:
        """Mean entropy of the batch."""
        return entropy(seen.scores / self.tau).mean()
