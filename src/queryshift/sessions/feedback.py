"""Clicks as feedback: do they prefer the source model's answers or the adapted ones?"""

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
ENOUGH = 30  # clicks; fewer do not decide which answers are better
Ranks: TypeAlias = tuple[int, int]  # of the clicked id, source and adapted; 0: not listed


@dataclass(frozen=True)
class ClickSummary:
    """How well source and adapted answers rank the clicked ids.

    Attributes:
        clicks: number of clicks.
        source_mrr: mean of 1 / rank in the source's answers; an id not listed counts 0.
        adapted_mrr: the same for the adapted answers.
        interval: 95 % confidence interval of `gain`, by a paired bootstrap over the clicks.
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
        """The gain in mean reciprocal rank."""
        return self.adapted_mrr - self.source_mrr

    @property
    def win_share(self) -> float | None:
        """The share of wins among wins and losses; None if there are neither."""
        decided = self.wins + self.losses
        return self.wins / decided if decided else None

    @property
    def sign_p(self) -> float:
        """The two-sided p-value of the sign test of wins against losses."""
        decided, fewer = self.wins + self.losses, min(self.wins, self.losses)
        return min(1.0, 2 * sum(_coin(decided, heads) for heads in range(fewer + 1)))

    @property
    def better(self) -> Literal["adapted", "source"] | None:
        """Which answers rank clicks better; None if the clicks do not decide it or are below 30."""
        low, high = self.interval
        if self.clicks < ENOUGH or low <= 0 <= high:
            return None
        return "adapted" if low > 0 else "source"


class ClickScores:
    """Counts clicks by their rank under the source's and under the adapted answer.

    It keeps one count for each pair of ranks; any thread may add.

    Args:
        counts: the result of another's `counts()`, to continue from.

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
        """Count the clicks on an answer.

        Args:
            answer: the session's answer; in shadow mode it has the `adapted` one too.
            clicked: the clicked id of each query, or None.
            count: number of hits of each answer to look at.
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
        """Count one later click, from the ids of both answers.

        Args:
            clicked: the id that was clicked.
            source: the ids of the source's answer to the query, best first.
            adapted: the ids of the adapted answer to the same query, best first.
        """
        with self._lock:
            self._counts[_rank(clicked, source), _rank(clicked, adapted)] += 1

    def counts(self) -> dict[Ranks, int]:
        """How often each pair of ranks was clicked; keep it to continue later.

        Returns:
            Counts by (rank for the source, rank for the adapted answer); 0 is not listed.
        """
        with self._lock:
            return dict(self._counts)

    def summary(self) -> ClickSummary:
        """Summarise the clicks so far.

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
    """The rank of an id, counted from 1; 0 if it is not listed."""
    return list(ids).index(clicked) + 1 if clicked in ids else 0


def _coin(tosses: int, heads: int) -> float:
    """The probability that a fair coin shows this many heads."""
    tails = tosses - heads
    ways = math.lgamma(tosses + 1) - math.lgamma(heads + 1) - math.lgamma(tails + 1)
    return math.exp(ways - tosses * math.log(2))


def _interval(values: NDArray[Any], times: NDArray[Any]) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the mean of values that occurred `times` each."""
    total = int(times.sum())
    drawn = np.random.default_rng(0).multinomial(total, times / total, size=RESAMPLES)
    low, high = np.quantile(drawn @ values / total, (0.025, 0.975))
    return float(low), float(high)
