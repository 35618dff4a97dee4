"""An answer: what a session gives for a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from queryshift.errors import BadInput, BadItem
from queryshift.galleries import Hits
from queryshift.galleries.hits import at_least_one
from queryshift.support.threads import working

from .forward import Forward
from .reranking import Ranking


class Answer:
    """A session's answer to a batch of queries. Hits are searched for on first use.

    An answer holds the prepared queries, so that `source` can be computed: keep the hits you need,
    not the answers.

    Attributes:
        skipped: the unreadable queries that `answer(..., on_bad="skip")` left out, each with its
            `index` in the batch. The answer has rows for the others only.

    Examples:
        >>> import queryshift as qs
        >>> from queryshift.lab import tangram
        >>> model, scenes = qs.load("tangram"), tangram.scenes("test", 16)
        >>> gallery = qs.Gallery.build(model["text"], [tangram.captions(s)[0] for s in scenes])
        >>> session = qs.Session(model["image"], gallery, qs.REST())
        >>> answer = session.answer([scene.image() for scene in scenes])
        >>> answer
        Answer(16 queries, 16 candidates)
        >>> answer.top(3).ids[5][0]
        5
    """

    __slots__ = ("_adapted", "_forward", "_ranking", "_source", "skipped")

    def __init__(
        self,
        forward: Forward,
        ranking: Ranking | None = None,
        *,
        source: Callable[[], Answer] | None = None,
        adapted: Callable[[], Answer] | Answer | None = None,
        skipped: Sequence[BadItem] = (),
    ) -> None:
        self._forward = forward
        self._ranking: Ranking = forward if ranking is None else ranking
        self._source: Callable[[], Answer] | Answer | None = source
        self._adapted = adapted
        self.skipped = tuple(skipped)

    @working()
    def top(self, count: int) -> Hits:
        """The best `count` candidates of each query, best first, on the CPU.

        Args:
            count: how many; fewer come back where the gallery has fewer.

        Returns:
            `Hits` with `ids`, `positions` and `scores`; `vectors` are fetched when asked for.
        """
        return self._ranking.hits(at_least_one(count)).to("cpu")

    @property
    def ranking(self) -> Ranking:
        """The order of candidates that hits are taken from."""
        return self._ranking

    @property
    def vectors(self) -> Tensor:
        """The unit vectors (B, D) that the queries were searched with."""
        return self._forward.vectors.detach()

    @property
    @working()
    def source(self) -> Answer:
        """The source model's answer to the same queries, computed on first use."""
        if self._source is None:
            return self
        if not isinstance(self._source, Answer):
            self._source = self._source()
        return self._source

    @property
    @working()
    def adapted(self) -> Answer:
        """The adapted model's answer: this one, except in shadow mode."""
        if self._adapted is None:
            return self
        if not isinstance(self._adapted, Answer):
            self._adapted = self._adapted()
        return self._adapted

    @working()
    @torch.no_grad()
    def scores(self) -> Tensor:
        """The score (B, N) of every candidate in this answer's own order, on the CPU.

        For evaluation over galleries that are in memory.

        Returns:
            A row for each query, -inf where a candidate is excluded.
        """
        return self._ranking.all_scores().cpu()

    def __len__(self) -> int:
        return len(self._forward)

    def __getitem__(self, row: object) -> None:
        raise BadInput(
            f"got answer[{row!r}]; an answer is for a whole batch: answer.top(10).ids[row] are the "
            "hits of one query."
        )

    def __repr__(self) -> str:
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Answer({len(self)} queries, {len(self._forward.gallery):,} candidates{skipped})"
