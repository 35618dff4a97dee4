"""Tent (Wang et al., ICLR 2021): make the retrieval confident by minimising its entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Mean entropy over the whole gallery."""

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """Mean entropy of the batch."""
        return entropy(forward.scores / self.tau).mean()
