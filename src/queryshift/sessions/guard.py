"""A guard bounds what queries can teach, and lets the source answer what it does better."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.unsureness import BEST
from queryshift.support.setting_fields import check_values, setting

from .ordinary import Ordinary

NEAREST = 10  # hits: as many as the statistics of a batch look at, so that one search serves both
KEPT = 0.8  # of the running mean of leads, by each batch


@dataclass(frozen=True)
class Guard:
    """Bounds what queries can do to a session: on by default, off in every benchmark.

    Args:
        collapse: Share of first places one candidate may gain over what it has for the source.
        smallest_batch: Queries a batch must have for collapse to be looked for: few share an answer
            by chance.
        spread: Least spread of queries that teach, as a share of the gallery's: batches without
            spread teach nothing.
        repeats: Distance, as a share of the gallery's spread, within which queries are the same:
            those count once, however often they are asked.
        anchor: Share of what was learnt that is given up by each batch, so that no stream leads
            further from the source than 1 / anchor batches do.
        pull: The same by each batch that the source is surer of, and of which seven of ten first
            places are the source's: the shift is over.
        surer: How many times surer the source must be of a batch than of those that were learnt
            from, for it to answer the batch itself.
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
    smallest_batch: int = setting(8, "ours", "queries a batch needs to be judged")
    spread: float = setting(0.19, "ours", "least spread of what teaches, of the gallery's")
    repeats: float = setting(0.05, "ours", "distance of queries that are the same, of its spread")
    anchor: float = setting(0.002, "ours", "share of what was learnt that each batch gives up")
    pull: float = setting(0.5, "ours", "the same, where the source is surer and as good as agrees")
    surer: float = setting(2.0, "ours", "times surer the source must be to answer a batch")
    ordinary: Ordinary | None = setting(None, "ours", "what queries look like when all is well")

    def __post_init__(self) -> None:
        check_values(self, "guard")
        if not 0 < self.collapse <= 1:
            raise BadInput(
                f"got Guard(collapse={self.collapse}), expected a share above 0 and at most 1."
            )
        shares = (self.anchor, self.pull)
        if min(self.spread, self.repeats, *shares) < 0 or max(shares) >= 1 or self.surer < 1:
            raise BadInput(
                f"got Guard(spread={self.spread}, repeats={self.repeats}, anchor={self.anchor}, "
                f"pull={self.pull}, surer={self.surer}), expected shares of at least 0, an anchor "
                "and a pull below 1, and a factor of at least 1."
            )
        if not (self.ordinary is None or isinstance(self.ordinary, Ordinary)):
            raise BadInput(
                f"ordinary is {self.ordinary!r}, expected a measured sample: "
                "Ordinary.of(encoder, gallery, queries)."
            )

    def led(self, before: float, now: float) -> float:
        """The lead of what was learnt from, its latest batches first, after one more.

        Args:
            before: The same before this batch; 0 where nothing had been learnt.
            now: The lead of the batch, by the source model.

        Returns:
            A running mean of leads.
        """
        return now if before == 0 else KEPT * before + (1 - KEPT) * now

    @torch.no_grad()
    def objection(self, now: Forward, source: Forward) -> str | None:
        """Why answers must not stand; one wait for the GPU.

        Args:
            now: The batch, seen through what was learnt.
            source: The batch, seen by the source model.

        Returns:
            A sentence; None if they may stand.
        """
        share = gained(now.hits(NEAREST).positions[:, 0], source.hits(1).positions[:, 0])
        finite = torch.isfinite(now.vectors).all()
        known, taken = torch.stack((finite.to(now.vectors), share.to(now.vectors))).tolist()
        if not known:
            return "not finite: the adapted vectors hold NaN or infinity"
        if len(now) >= self.smallest_batch and taken > self.collapse:
            return (
                f"collapse: one candidate took {taken:.0%} more of the first places than for "
                f"the source model (limit {self.collapse:.0%})"
            )
        return None


def gained(first: Tensor, source_first: Tensor) -> Tensor:
    """The largest share of first places any candidate has beyond its share for the source."""
    has, had = ((one[None] == first[:, None]).sum(dim=1) for one in (first, source_first))
    return (has - had).max() / len(first)


def lead(forward: Forward) -> Tensor:
    """How far the first hit lies before the tenth, in cosine, mean over the queries."""
    forward.hits(BEST)  # as many as the choice of who answers looks at: one search serves both
    return leads(forward).mean()


def leads(forward: Forward) -> Tensor:
    """The same of each query (B,)."""
    scores = forward.hits(NEAREST).scores
    return scores[:, 0] - scores[:, -1]
