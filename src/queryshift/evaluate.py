"""Running a method over a shifted stream, and what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .corruptions import Corruption, corrupt
from .datasets import Dataset
from .encoder import Encoder
from .galleries import Gallery
from .methods.base import Method
from .metrics import ranks, recall
from .progress import track
from .session import Session
from .shift import Shift

BATCH = 64


@dataclass(frozen=True)
class Outcome:
    """What one stream gave, query by query in the dataset's order."""

    ranks: Tensor  # (Q,) of the best right answer, from 1
    order: Tensor  # (Q,) the order in which the queries came
    seconds: float  # in the session, answers included
    history: Sequence[Shift]

    def recall(self, k: int = 1) -> float:
        """Percentage of queries with a right answer among the first `k`."""
        return recall(self.ranks, k)


def shifted(
    dataset: Dataset, corruption: Corruption | None, severity: int = 3, seed: int = 0
) -> list[Any]:
    """The dataset's queries under a corruption, each with a generator of its own."""
    if corruption is None:
        return list(dataset.queries)
    pairs = zip(dataset.queries, dataset.query_ids, strict=True)
    named = track(pairs, f"making {corruption.__name__} queries", total=len(dataset))
    return [corrupt(one, corruption, severity, seed=seed, item_id=name) for one, name in named]


def run(
    session: Session,
    queries: Sequence[Any],
    matches: Sequence[Sequence[int]],
    seed: int = 0,
    batch_size: int = BATCH,
    watch: Callable[[int], None] | None = None,
) -> Outcome:
    """Ask all queries in an order drawn from `seed`; the last short batch counts too.

    `watch` is told how many queries have been answered.
    """
    order = torch.randperm(len(queries), generator=torch.Generator().manual_seed(seed))
    found = torch.zeros(len(queries), dtype=torch.long)
    seconds, before = 0.0, len(session.history)
    for rows in torch.split(order, batch_size):
        asked = [queries[row] for row in rows.tolist()]
        started = time.perf_counter()
        answer = session.answer(asked)
        answer.top(10)
        seconds += time.perf_counter() - started
        right = [matches[row] for row in rows.tolist()]
        found[rows] = ranks(answer.vectors, answer.gallery, right, answer.exclude)
        if watch is not None:
            watch(len(rows))
    return Outcome(found, order, seconds, session.history[before:])


def compare(
    encoder: Encoder,
    gallery: Gallery,
    dataset: Dataset,
    queries: Sequence[Any],
    methods: Sequence[Method],
    seed: int = 0,
) -> dict[str, Outcome]:
    """Every method over the same stream, each in a session of its own."""
    return {
        method.name: run(Session(encoder, gallery, method), queries, dataset.matches, seed)
        for method in methods
    }
