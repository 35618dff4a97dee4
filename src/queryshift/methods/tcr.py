"""TCR (Li et al., ICLR 2025): the conference version of REST, as its published code behaves."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from queryshift.retrieval.forward import Forward

from .base import setting
from .losses import SourceLike, entropy, gap, reliability, uniformity, weighted_mean
from .source_like import FollowsSource


@dataclass(frozen=True, kw_only=True)
class TCR(FollowsSource):
    """Entropy of reliable queries, uniformity, and the source model's gap to the gallery.

    Args:
        uniformity_scale: Scale t in exp(-t * distance).

    The other arguments are those of `Method`, and those of the queue of source-like pairs.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.TCR(queue_size=64))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    uniformity_scale: float = setting(0.1, "TCR's code", "t in exp(-t * distance)")

    def loss(self, forward: Forward, memory: SourceLike) -> Tensor:
        """Reliable entropy + uniformity + squared deviation from the source's gap."""
        entropies = entropy(self.logits(forward))
        trusted = entropies.detach() <= memory.entropy_limit
        weights = reliability(entropies, memory.entropy_limit + self.limit_margin) * trusted
        deviation = gap(forward.vectors, forward.nearest) - memory.gap
        return (
            weighted_mean(entropies, weights)
            + uniformity(forward.vectors, self.uniformity_scale)
            + deviation.square()
        )
