"""COME (Zhang et al., ICLR 2025): entropy of an opinion that may also say "none of these"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import Method, setting
from .losses import entropy


@dataclass(frozen=True, kw_only=True)
class COME(Method):
    """Entropy of the prediction with an extra outcome, "none of the candidates".

    Args:
        evidence_scale: Factor from cosines to logits; None is one over the temperature.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.COME(evidence_scale=50.0))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    evidence_scale: float | None = setting(
        None, "ours", "logits are cosine times this; None: one over the temperature"
    )

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """Mean entropy of the opinions; the length of the logits cannot be used to lower it."""
        scale = 1 / self.tau if self.evidence_scale is None else self.evidence_scale
        logits = forward.scores * scale
        absent = torch.isneginf(logits)
        present = logits.masked_fill(absent, 0)
        length = torch.linalg.vector_norm(present, dim=1, keepdim=True).clamp(min=1e-12)
        held = (present / length * length.detach()).masked_fill(absent, -torch.inf)
        uncertain = (~absent).sum(dim=1, keepdim=True).to(held).log()
        return entropy(torch.cat((held, uncertain), dim=1)).mean()
