"""A guard bounds what queries can do to a session."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.fusion import SHORTLIST
from queryshift.retrieval.uncertainty import FIRST
from queryshift.support.setting_fields import check_values, setting

from .reference_queries import Ordinary

FEW = 2 * FIRST  # queries: fewer tell nothing of a stream


@dataclass(frozen=True)
class Guard:
    """Bounds what queries can do to a session: on by default, off in every benchmark.

    With a guard the source model has its say in every answer, and a session learns as much as the
    source is in doubt (docs/guard.md). Without one a session is the bare method.

    Args:
        collapse: Share of first places one candidate may gain over what it has for the source, in
            batches of ten queries and more: fewer share an answer by chance.
        spread: Least spread of queries that teach, as a share of the gallery's: a batch without
            spread teaches nothing.
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

    collapse: float = setting(0.5, "ours", "share of first places one candidate may gain")
    spread: float = setting(0.19, "ours", "least spread of what teaches, of the gallery's")
    ordinary: Ordinary | None = setting(None, "ours", "what queries look like when all is well")

    def __post_init__(self) -> None:
        check_values(self, "guard")
        if not 0 < self.collapse <= 1:
            raise BadInput(
                f"got Guard(collapse={self.collapse}), expected a share above 0 and at most 1."
            )
        if self.spread < 0:
            raise BadInput(f"got Guard(spread={self.spread}), expected a share of at least 0.")
        if not (self.ordinary is None or isinstance(self.ordinary, Ordinary)):
            raise BadInput(
                f"ordinary is {self.ordinary!r}, expected a measured sample: "
                "Ordinary.of(encoder, gallery, queries)."
            )

    @torch.no_grad()
    def objection(self, now: Forward, source: Forward) -> str | None:
        """Why answers must not stand; one wait for the GPU.

        Args:
            now: The batch, seen through what was learnt.
            source: The batch, seen by the source model.

        Returns:
            A sentence; None if they may stand.
        """
        first, source_first = (one.hits(SHORTLIST).positions[:, 0] for one in (now, source))
        share = gained(first, source_first)
        finite = torch.isfinite(now.vectors).all()
        known, taken = torch.stack((finite.to(now.vectors), share.to(now.vectors))).tolist()
        if not known:
            return "not finite: the adapted vectors hold NaN or infinity"
        if len(now) >= FEW and taken > self.collapse:
            return (
                f"collapse: one candidate took {taken:.0%} more of the first places than for "
                f"the source model (limit {self.collapse:.0%})"
            )
        return None


def gained(first: Tensor, source_first: Tensor) -> Tensor:
    """The largest share of first places any candidate has beyond its share for the source."""
    has, had = ((one[None] == first[:, None]).sum(dim=1) for one in (first, source_first))
    return (has - had).max() / len(first)
