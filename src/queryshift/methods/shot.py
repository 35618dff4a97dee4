"""SHOT (Liang et al., ICML 2020), online as in T3A: confident each, diverse together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method, setting
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class SHOT(Method):
    """Entropy of each prediction, minus that of the mean, plus pseudo-labels with a small weight.

    Args:
        confidence: Least probability of a pseudo-label.
        label_weight: Weight of the pseudo-label term.
        floor: Added inside the logarithm of the mean prediction.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.SHOT(label_weight=0.3))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    confidence: float = setting(0.9, "TCR's code", "least probability of a pseudo-label")
    label_weight: float = setting(0.1, "TCR's code", "weight of the pseudo-label term")
    floor: float = setting(1e-5, "TCR's code", "added inside the logarithm of the mean prediction")

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """Mean E + sum of pbar log(pbar + floor) + label_weight * cross-entropy of the sure."""
        logits = forward.scores / self.tau
        logs = logits.log_softmax(dim=1)
        mean = forward.summed(logs.exp()) / len(forward)
        first = logs.amax(dim=1)
        sure = (first.detach().exp() > self.confidence).to(first.dtype)
        labels = -(first * sure).sum() / sure.sum().clamp(min=1)
        diversity = (mean * (mean + self.floor).log()).sum()
        return entropy(logits).mean() + diversity + self.label_weight * labels
