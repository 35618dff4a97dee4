"""Metrics of ranks: a score for each query, and how scores are averaged."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import unknown

Ranks = NDArray[np.uint32]  # (Q, R): of all right answers, best first, 0 where a query has fewer
Scores = NDArray[np.float64]  # (Q,)

SUBSET = "subset_"  # before a metric: among the few candidates of CIRR's subset for a query
SECONDS = "seconds"  # of a whole stream: a measure of cells, which no rank has a share in
METRICS = (
    *("recall@1", "recall@5", "recall@10", "recall@50", "mean_rank", "median_rank", "map"),
    *("mrr", "ndcg@10"),
)


@dataclass(frozen=True)
class Metric:
    """A number per query, and the number of all of them together."""

    name: str
    of_each: Callable[[Ranks], Scores]
    together: Callable[[Scores], np.float64] = np.mean
    higher_is_better: bool = True

    def of(self, ranks: Ranks, categories: Mapping[str, int] | None = None) -> float:
        """The metric of all queries; with categories, the plain mean over them (as FashionIQ's)."""
        scores = self.of_each(ranks)
        ends = np.cumsum(list((categories or {}).values()))[:-1].astype(int)
        return float(np.mean([self.together(part) for part in np.split(scores, ends)]))

    def shares(self, ranks: Ranks, categories: Mapping[str, int] | None = None) -> Scores:
        """A score for each query; their plain mean is the metric (only if the metric is a mean)."""
        sizes = list((categories or {"all": len(ranks)}).values())
        weight = np.repeat([len(ranks) / len(sizes) / size for size in sizes], sizes)
        return np.asarray(self.of_each(ranks) * weight)

    @property
    def is_mean(self) -> bool:
        """Whether each query has a share in it, as bootstrapping its mean needs."""
        return self.together is np.mean


def metric(name: str) -> Metric:
    """The metric of this name: one of `METRICS`, or recall at any other depth."""
    plain = name.removeprefix(SUBSET)
    if depth := re.fullmatch(r"recall@([1-9]\d*)", plain):
        return Metric(name, _hits(int(depth[1])))
    if depth := re.fullmatch(r"ndcg@([1-9]\d*)", plain):
        return Metric(name, _gains(int(depth[1])))
    if plain not in METRICS:
        raise unknown("metric", name, METRICS)
    if plain == "map":
        return Metric(name, average_precision)
    if plain == "mrr":
        return Metric(name, lambda ranks: 100 / ranks[:, 0])
    together = np.median if plain == "median_rank" else np.mean
    return Metric(name, lambda ranks: ranks[:, 0].astype(float), together, higher_is_better=False)


def average_precision(ranks: Ranks) -> Scores:
    """Mean precision at each right answer of each query, in percent."""
    present = ranks > 0
    order = np.arange(1, ranks.shape[1] + 1)
    precision = np.where(present, order / np.maximum(ranks, 1), 0.0)
    return np.asarray(100 * precision.sum(axis=1) / present.sum(axis=1))


def _gains(depth: int) -> Callable[[Ranks], Scores]:
    """nDCG at a depth with right answers alike, in percent."""

    def of_each(ranks: Ranks) -> Scores:
        counted = (ranks > 0) & (ranks <= depth)
        gain = np.where(counted, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0).sum(axis=1)
        best = np.cumsum(1 / np.log2(np.arange(1, depth + 1) + 1))
        return np.asarray(100 * gain / best[np.minimum((ranks > 0).sum(axis=1), depth) - 1])

    return of_each


def _hits(depth: int) -> Callable[[Ranks], Scores]:
    return lambda ranks: np.where(ranks[:, 0] <= depth, 100.0, 0.0)
