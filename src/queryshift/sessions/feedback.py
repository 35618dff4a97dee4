"""What clicks say about source and adapted answers, side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.retrieval.answer import Answer
from queryshift.support.threads import RenewedLock

RESAMPLES = 10_000
Ranks: TypeAlias = tuple[int, int]  # of the clicked id under source and adapted; 0: not listed


@dataclass(frozen=True)
class ClickSummary:
    """How well source and adapted answers rank what was clicked.

    Attributes:
        clicks: how many were counted.
        source_mrr: mean of 1 / rank under the source's answers; an id not listed counts 0.
        adapted_mrr: the same under the adapted answers.
        interval: where `gain` lies with 95 % confidence, by a paired bootstrap over the clicks.
        wins: clicks that the adapted answer ranks better.
        losses: clicks that the source's answer ranks better.
    """

    clicks: int
    source_mrr: float
    adapted_mrr: float
    interval: tuple[float, float]
    wins: int
    losses: int

    @property
    def gain(self) -> float:
        """What adaptation adds to the mean reciprocal rank."""
        return self.adapted_mrr - self.source_mrr

    @property
    def win_share(self) -> float | None:
        """The share of wins among wins and losses; None where there are neither."""
        decided = self.wins + self.losses
        return self.wins / decided if decided else None

    @property
    def sign_p(self) -> float:
        """The two-sided p of the sign test: how likely so uneven wins and losses are by chance."""
        decided, fewer = self.wins + self.losses, min(self.wins, self.losses)
        if decided == 0:
            return 1.0
        return min(1.0, 2 * sum(_coin(decided, heads) for heads in range(fewer + 1)))

    @property
    def better(self) -> Literal["adapted", "source"] | None:
        """Which answers rank clicks better; None where the clicks cannot tell."""
        low, high = self.interval
        if low > 0:
            return "adapted"
        return "source" if high < 0 else None


class ClickScores:
    """Counts clicks by their rank under the source's and under the adapted answer.

    It keeps one number for each pair of ranks, however many clicks there are; any thread may add.

    Args:
        counts: what `counts()` of another gave, to go on from there.

    Examples:
        >>> import queryshift as qs
        >>> scores = qs.ClickScores()
        >>> scores.add_click(clicked="b", source=["a", "b", "c"], adapted=["b", "a", "d"])
        >>> summary = scores.summary()
        >>> summary.source_mrr, summary.adapted_mrr, summary.wins
        (0.5, 1.0, 1)
    """

    def __init__(self, counts: Mapping[Ranks, int] | None = None) -> None:
        self._counts: Counter[Ranks] = Counter(counts or {})
        self._lock = RenewedLock()

    def add(self, answer: Answer, clicked: Sequence[Id | None], count: int = 10) -> None:
        """Count the clicks of a batch whose answer is still at hand.

        Args:
            answer: what the session gave; in shadow mode its `adapted` lies beside it.
            clicked: the id clicked for each query of the answer, None where none was.
            count: how many hits of each answer are looked at.
        """
        if len(clicked) != len(answer):
            raise BadInput(
                f"got {len(clicked)} clicks for an answer of {len(answer)} queries: give one for "
                "each query, None where nothing was clicked."
            )
        sources, others = answer.source.top(count).ids, answer.adapted.top(count).ids
        for id, source, adapted in zip(clicked, sources, others, strict=True):
            if id is not None:
                self.add_click(id, source, adapted)

    def add_click(self, clicked: Id, source: Sequence[Id], adapted: Sequence[Id]) -> None:
        """Count one click that came later, from ids kept of both answers.

        Args:
            clicked: the id that was clicked.
            source: the ids of the source's answer to the query, best first.
            adapted: the ids of the adapted answer to the same query, best first.
        """
        with self._lock:
            self._counts[_rank(clicked, source), _rank(clicked, adapted)] += 1

    def counts(self) -> dict[Ranks, int]:
        """How often each pair of ranks was clicked: all that must be kept to go on later.

        Returns:
            Counts by (rank for the source, rank for the adapted answer); 0 is not listed.
        """
        with self._lock:
            return dict(self._counts)

    def summary(self) -> ClickSummary:
        """What the clicks say so far.

        Returns:
            Mean reciprocal ranks, wins and losses, and which answers are better.
        """
        counts = self.counts()
        if not counts:
            raise BadInput("there are no clicks yet: add some first.")
        ranks, times = np.array(list(counts)), np.array(list(counts.values()))
        reciprocal = np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)
        source, adapted = times @ reciprocal / times.sum()
        gains = reciprocal[:, 1] - reciprocal[:, 0]
        return ClickSummary(
            clicks=int(times.sum()),
            source_mrr=float(source),
            adapted_mrr=float(adapted),
            interval=_interval(gains, times),
            wins=int(times[gains > 0].sum()),
            losses=int(times[gains < 0].sum()),
        )


def _rank(clicked: Id, ids: Sequence[Id]) -> int:
    """The place of an id, counted from 1; 0 where it is not listed."""
    return list(ids).index(clicked) + 1 if clicked in ids else 0


def _coin(tosses: int, heads: int) -> float:
    """How likely a fair coin shows so many heads."""
    tails = tosses - heads
    ways = math.lgamma(tosses + 1) - math.lgamma(heads + 1) - math.lgamma(tails + 1)
    return math.exp(ways - tosses * math.log(2))


def _interval(values: NDArray[Any], times: NDArray[Any]) -> tuple[float, float]:
    """The middle 95 % of the mean when the clicks are drawn anew: values that came `times` each."""
    total = int(times.sum())
    drawn = np.random.default_rng(0).multinomial(total, times / total, size=RESAMPLES)
    low, high = np.quantile(drawn @ values / total, (0.025, 0.975))
    return float(low), float(high)
