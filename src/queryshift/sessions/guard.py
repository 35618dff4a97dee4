"""A guard lets the source answer what it knows, and returns to it when answers go wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.methods.decoupled import drift
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined
from queryshift.support.setting_fields import check_values

from .ordinary import Ordinary


@dataclass(frozen=True)
class Guard:
    """When the source model answers instead. Off by default, and in every benchmark.

    Args:
        collapse: Share of first places one candidate may gain over what it has for the source.
        drift: Largest KL of the refined prediction from the source's, in nats: a backstop, since
            streams that go well move as far as those that collapse (docs/guard.md).
        smallest_batch: Queries a batch must have for collapse to be looked for: few share an answer
            by chance.
        ordinary: What queries look like when all is well: the source answers such batches, and
            nothing is learnt from them.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.REST(), guard=qs.Guard(collapse=0.5))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    collapse: float = 0.25
    drift: float = 25.0
    smallest_batch: int = 8
    ordinary: Ordinary | None = None

    def __post_init__(self) -> None:
        check_values(self, "guard")
        if not 0 < self.collapse <= 1 or self.drift <= 0:
            raise BadInput(
                f"got Guard(collapse={self.collapse}, drift={self.drift}), expected a share "
                "between 0 and 1 and a drift above 0."
            )
        if not (self.ordinary is None or isinstance(self.ordinary, Ordinary)):
            raise BadInput(
                f"ordinary is {self.ordinary!r}, expected a measured sample: "
                "Ordinary.of(encoder, gallery, queries)."
            )

    @torch.no_grad()
    def objection(self, now: Forward, source: Forward) -> str | None:
        """Why answers must not stand.

        Args:
            now: The batch, seen through what was learnt.
            source: The batch, seen by the source model.

        Returns:
            A sentence; None if they may stand.
        """
        if not bool(torch.isfinite(now.vectors).all()):
            return "not finite: the adapted vectors hold NaN or infinity"
        share = gained(now.hits(1).positions[:, 0], source.hits(1).positions[:, 0])
        if len(now) >= self.smallest_batch and share > self.collapse:
            return (
                f"collapse: one candidate took {share:.0%} more of the first places than for "
                f"the source model (limit {self.collapse:.0%})"
            )
        moved = float(drift(source, refined(now, neighbours=10, temperature=0.02)))
        if moved > self.drift:
            return f"drift: predictions moved {moved:.2f} nats from the source (limit {self.drift})"
        return None


def gained(first: Tensor, source_first: Tensor) -> float:
    """The largest share of first places any candidate has beyond its share for the source."""
    candidates, counts = torch.unique(first, return_counts=True)
    had = (source_first[None] == candidates[:, None]).sum(dim=1)
    return float((counts - had).max()) / len(first)
