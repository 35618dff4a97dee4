"""An answer: what a session gives for a batch of queries, ranked by both models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from queryshift.errors import BadInput, BadItem
from queryshift.galleries import Hits
from queryshift.galleries.hits import at_least_one
from queryshift.galleries.seen_candidates import SeenCandidates
from queryshift.support.threads import working

from .forward import Forward
from .reranking import Ranking

SHORTLIST = 100
"""Number of best candidates in a model's prediction."""
BEHIND = 100.0  # subtracted from candidates on neither shortlist


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
        """What a live session answers: this answer, except in shadow mode."""
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


class FusedRanking:
    """Candidates by `(1 - weight) * p_source + weight * p_adapted`.

    Each prediction is a softmax over the ranking's own 100 best candidates. The temperature is the
    standard deviation of the source's 100 best scores, so that for each query a model with nearly
    equal scores counts little. Candidates on neither shortlist follow in the adapted order.

    Args:
        source: The source model's ranking.
        adapted: The adapted model's, after correction.
        weight: Of the adapted model, between 0 and 1.
    """

    def __init__(self, source: Ranking, adapted: Ranking, weight: float) -> None:
        self._source, self._adapted, self._weight = source, adapted, weight

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates; scores are probabilities, 0 outside both shortlists."""
        source, adapted, positions, scores = self._union(max(count, SHORTLIST))
        width = min(count, adapted.positions.shape[1])
        candidates, more = adapted.candidates, source.candidates
        if isinstance(candidates, SeenCandidates) and isinstance(more, SeenCandidates):
            candidates = candidates.joined(more)  # an engine was searched for each
        return Hits(positions[:, :width], scores[:, :width], candidates)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The probability (B, N) of every candidate; the others follow in the adapted order."""
        _, _, positions, scores = self._union(SHORTLIST)
        behind = self._adapted.all_scores() - BEHIND
        return behind.scatter_reduce(1, positions, scores.to(behind), "amax")

    @property
    def temperature(self) -> Tensor:
        """The temperature (B, 1) of both predictions."""
        scores = self._source.hits(SHORTLIST).scores
        spread = scores[:, :SHORTLIST].std(dim=1, correction=0, keepdim=True)
        return spread.clamp(min=torch.finfo(spread.dtype).tiny)

    def _union(self, depth: int) -> tuple[Hits, Hits, Tensor, Tensor]:
        """Both lists, and their candidates (B, 2 depth) best first; duplicates score -inf."""
        source, adapted = self._source.hits(depth), self._adapted.hits(depth)
        unit = self.temperature
        of_source = (1 - self._weight) * _predicted(source.scores, unit)
        of_adapted = self._weight * _predicted(adapted.scores, unit)
        same = adapted.positions[:, :, None] == source.positions[:, None]
        joint = of_adapted + (same * of_source[:, None]).sum(dim=2)
        alone = of_source.masked_fill(same.any(dim=1), -torch.inf)
        scores, order = torch.cat((joint, alone), dim=1).sort(dim=1, descending=True, stable=True)
        positions = torch.cat((adapted.positions, source.positions), dim=1).gather(1, order)
        return source, adapted, positions, scores


def _predicted(scores: Tensor, unit: Tensor) -> Tensor:
    """The softmax (B, k) over the best candidates, 0 for the others."""
    shares = (scores[:, :SHORTLIST] / unit).softmax(dim=1)
    return pad(shares, (0, max(0, scores.shape[1] - SHORTLIST)))
