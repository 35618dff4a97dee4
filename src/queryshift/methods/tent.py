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
    """Mean entropy over the whole gallery.

    The other arguments are those of `Method`.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Tent(lr=1e-3))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    def loss(self, forward: Forward, memory: Any) -> Tensor:
        """Mean entropy of the batch."""
        return entropy(forward.scores / self.tau).mean()
