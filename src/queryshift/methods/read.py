"""READ (Yang et al., ICLR 2024): confident predictions up, uncertain ones down, with balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method, setting
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class READ(Method):
    """Mean of -p log p of the top-1 result, minus the entropy of the batch's summed prediction.

    Args:
        balance: Weight of the balance term.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.READ(balance=0.5))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    balance: float = setting(1.0, "official code", "weight of the balance term")

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """-p log p turns at p = 1/e, the official gamma; balance is a softmax of summed p."""
        logs = (forward.scores / self.tau).log_softmax(dim=1)
        first = logs.amax(dim=1)
        total = forward.summed(logs.exp())
        return -(first.exp() * first).mean() - self.balance * entropy(total[None]).squeeze(0)
