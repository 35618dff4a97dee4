"""TCR without training: spread the queries and close the gap in closed form, at no cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.nn.functional import normalize

from ..encoder import Encoder, Params
from ..galleries import Searchable
from ..losses import gap
from ..retrieval import Look, Retrieval
from .base import Update, setting
from .source_like import FollowsSource, SourceLike


@dataclass(frozen=True, kw_only=True)
class TCRUntrained(FollowsSource):
    """q' = c + scale * (q - c), moved to or from the candidates until the source's gap is left."""

    scale: float = setting(1.5, "ours", "how much the queries are spread about their centre")

    @property
    def name(self) -> str:
        """The key of `METHODS`."""
        return "tcr_untrained"

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """No parameters at all."""
        return {}

    def gradient(self, look: Look, memory: Any) -> Update:
        """Nothing is trained."""
        return Update(None)

    def logits(self, seen: Retrieval) -> Tensor:
        """As TCR: each query against the first places of the whole batch."""
        return seen.vectors @ seen.nearest.T / self.tau

    def view(self, seen: Retrieval, memory: SourceLike) -> Retrieval:
        """The moved queries."""
        if len(seen) < self.smallest_batch or len(memory) == 0:
            return seen
        centre, candidates = seen.vectors.mean(dim=0), seen.nearest.mean(dim=0)
        spread = centre + self.scale * (seen.vectors - centre)
        share = 1 - memory.gap / gap(seen.vectors, seen.nearest)
        moved = normalize(spread + share * (candidates - centre), dim=1)
        return replace(seen, vectors=moved, found={})
