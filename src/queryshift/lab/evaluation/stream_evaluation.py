"""Run a method over a shifted stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.lab.corruptions import Corruption
from queryshift.lab.datasets import Dataset
from queryshift.sessions.batch_stats import BatchStats
from queryshift.sessions.session import Session
from queryshift.support.progress import track

from .corrupted_queries import Shifted
from .ranks import recall, relevant_ranks, subset_ranks

BATCH, SHOWN = 64, 10
Lists = Sequence[Sequence[int]]


@dataclass(frozen=True)
class StreamResult:
    """The results of one stream, query by query in the dataset's order."""

    all_ranks: Tensor  # (Q, R) of all right answers, best first, from 1; 0 where there are fewer
    order: Tensor  # (Q,) the order in which the queries came
    seconds: float  # in the session, answers included
    history: Sequence[BatchStats]
    top: Tensor  # (Q, 10) positions of the best candidates
    subset_ranks: Tensor | None = None  # (Q,) of the best right answer among a query's few

    @property
    def ranks(self) -> Tensor:
        """Rank (Q,) of the best right answer."""
        return self.all_ranks[:, 0]

    def recall(self, k: int = 1) -> float:
        """Percentage of queries with a right answer among the first `k`."""
        return recall(self.ranks, k)


def shifted(
    dataset: Dataset, corruption: Corruption | None, severity: int = 3, seed: int = 0
) -> list[Any]:
    """The dataset's queries under a corruption, all made at once."""
    name = "clean" if corruption is None else corruption.__name__
    return list(track(Shifted(dataset, corruption, severity, seed), f"making {name} queries"))


def run(
    session: Session,
    queries: Sequence[Any],
    matches: Lists,
    seed: int = 0,
    batch_size: int = BATCH,
    watch: Callable[[int], None] | None = None,
    *,
    exclude: Lists = (),
    subsets: Lists = (),
    adapt: bool = True,
) -> StreamResult:
    """Ask all queries in an order drawn from `seed`; the last short batch counts too.

    `watch` gets the number of queries answered. `exclude` are candidates that are no answers to
    a query (CIRR's reference), `subsets` the few it is ranked among once more: by position, and
    the gallery's ids must be the positions. Without `adapt`, nothing is learnt on the way.
    """
    order = torch.randperm(len(queries), generator=torch.Generator().manual_seed(seed))
    found = torch.zeros(len(queries), max(map(len, matches)), dtype=torch.long)
    few = torch.zeros(len(queries), dtype=torch.long)
    seconds, before, top = 0.0, len(session.history), list[Tensor]()
    for rows in torch.split(order, batch_size):
        asked = [queries[row] for row in rows.tolist()]
        left_out = [exclude[row] for row in rows.tolist()] if exclude else None
        started = time.perf_counter()
        answer = session.answer(asked, adapt, exclude=left_out)
        top.append(answer.top(SHOWN).positions)
        seconds += time.perf_counter() - started
        right = [matches[row] for row in rows.tolist()]
        scores = answer.scores()
        ranks = relevant_ranks(scores, right)
        found[rows, : ranks.shape[1]] = ranks
        if subsets:
            among = [subsets[row] for row in rows.tolist()]
            few[rows] = subset_ranks(scores, right, among)
        if watch is not None:
            watch(len(rows))
    history = session.history[before:]
    best = torch.cat(top)[order.argsort()]
    return StreamResult(found, order, seconds, history, best, few if subsets else None)
