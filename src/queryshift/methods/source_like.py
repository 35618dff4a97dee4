"""Methods that follow the most source-like pairs of a stream: they set the gap and the entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward

from .base import Method, setting
from .losses import LIMIT_MARGIN, SourceLike, entropy


@dataclass(frozen=True, kw_only=True)
class FollowsSource(Method):
    """A method that keeps source-like pairs in a queue: TCR and REST.

    Args:
        queue_share: Largest share of a batch's pairs of query and positive to enter the queue.
        queue_size: Pairs in the queue; None: as many as the batch has queries.
        queue_batches: Number of first batches that add to the queue; None: all.
        limit_margin: Added to the largest entropy in the queue.
    """

    queue_share: float = setting(0.3, "TCR's code", "of each batch that may join the queue")
    queue_size: int | None = setting(None, "paper", "pairs kept; None: as many as a batch has")
    queue_batches: int | None = setting(10, "TCR's code", "batches that fill the queue; None: all")
    limit_margin: float = setting(
        LIMIT_MARGIN, "TCR's code", "added to the largest trusted entropy"
    )

    fallback: ClassVar[Mapping[str, float]] = {"lr": 3e-4, "temperature": 0.02}
    own_temperature: ClassVar[bool] = True  # the paper's 0.02, on every benchmark

    def check(self) -> None:
        """Refuse a queue that nothing may enter."""
        super().check()
        self._must("queue_share", 0 <= self.queue_share <= 1, "a share between 0 and 1")
        for name in ("queue_size", "queue_batches"):
            value = getattr(self, name)
            self._must(name, value is None or value >= 1, "none, or at least 1")

    @property
    def smallest_batch(self) -> int:
        """Two: one query has no spread."""
        return 2

    def start(self, gallery: Searchable, device: torch.device) -> SourceLike:
        """An empty queue."""
        return SourceLike.empty(gallery.centroids(1).to(device))

    def check_memory(self, memory: SourceLike, gallery: Searchable) -> None:
        """The queue holds pairs of the gallery's dimension."""
        if not isinstance(memory, SourceLike):
            raise ValueError("the memory holds no source-like pairs")
        memory.check()
        if memory.queries.shape[1] != gallery.dimension:
            raise ValueError(
                f"source-like pairs have {memory.queries.shape[1]} dimensions, the gallery has "
                f"{gallery.dimension}"
            )

    def observe(self, forward: Forward, memory: SourceLike, step: int) -> SourceLike:
        """Add the most source-like pairs of a batch to the queue, at its first step."""
        full = self.queue_batches is not None and memory.batches >= self.queue_batches
        if step > 0 or full:
            return memory
        with torch.no_grad():
            size = max(len(memory), self.queue_size or len(forward))
            pairs = forward.vectors, forward.nearest, self.entropies(forward)
            return memory.with_batch(*pairs, self.queue_share, size)

    def entropies(self, forward: Forward) -> Tensor:
        """The entropy (B,) of the prediction of `logits`."""
        return entropy(self.logits(forward))

    def logits(self, forward: Forward) -> Tensor:
        """The prediction whose entropy says how certain a query is.

        By default each query against the top-1 results of the whole batch (B, B), copies kept.
        """
        return forward.vectors @ forward.nearest.T / self.tau
