"""TCR without training: spread the queries and close the gap in closed form, at no cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder, Params
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward

from .base import StepView, Update, setting
from .losses import SourceLike, gap
from .source_like import FollowsSource


@dataclass(frozen=True, kw_only=True)
class TCRUntrained(FollowsSource):
    """Query vectors are spread and moved to the gallery by a formula, without training.

    Args:
        scale: Factor of the queries' distance from their mean.

    The other arguments are those of `Method`, and those of the queue of source-like pairs.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.TCRUntrained(scale=1.2))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    scale: float = setting(1.5, "ours", "how much the queries are spread about their centre")

    @property
    def name(self) -> str:
        """The key of `METHODS`."""
        return "tcr_untrained"

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """No parameters at all."""
        return {}

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """Nothing is trained."""
        return Update(None)

    def view(self, forward: Forward, memory: SourceLike) -> Forward:
        """The moved queries."""
        if len(forward) < self.smallest_batch or len(memory) == 0:
            return forward
        centre, candidates = forward.vectors.mean(dim=0), forward.nearest.mean(dim=0)
        spread = centre + self.scale * (forward.vectors - centre)
        share = 1 - memory.gap / gap(forward.vectors, forward.nearest)
        lengths = forward.vectors.norm(dim=1, keepdim=True)  # kept: others than 1 are refused later
        moved = lengths * normalize(spread + share * (candidates - centre), dim=1)
        return forward.moved(moved)
