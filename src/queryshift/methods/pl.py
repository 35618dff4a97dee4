"""PL (Lee, 2013; as in T3A): learn from confident top-1 results as pseudo-labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method, setting


@dataclass(frozen=True, kw_only=True)
class PL(Method):
    """Cross-entropy to the nearest candidate, over confident queries.

    Args:
        confidence: Least probability of a pseudo-label.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.PL(confidence=0.5))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    confidence: float = setting(0.9, "T3A's code", "least probability of a pseudo-label")

    def loss(self, forward: Forward, memory: Any) -> Tensor | None:
        """Mean of -log p of the top-1 results with p above `confidence`; None without any."""
        first = (forward.scores / self.tau).log_softmax(dim=1).amax(dim=1)
        sure = first.detach().exp() > self.confidence
        return -first[sure].mean() if bool(sure.any()) else None
