"""READ (Yang et al., ICLR 2024): push sure predictions up, unsure ones down, and keep balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method, setting
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class READ(Method):
    """Mean of -p log p of the first place, minus the entropy of the batch's summed prediction."""

    balance: float = setting(1.0, "official code", "weight of the balance term")

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """-p log p turns at p = 1/e, the official gamma; balance is a softmax of summed p."""
        logs = (forward.scores / self.tau).log_softmax(dim=1)
        first = logs.amax(dim=1)
        total = forward.summed(logs.exp())
        return -(first.exp() * first).mean() - self.balance * entropy(total[None]).squeeze(0)
