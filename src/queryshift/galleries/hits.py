"""Hits: the best candidates of each query, best first."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from queryshift.errors import BadInput

Id: TypeAlias = str | int


@dataclass(frozen=True)
class Hits:
    """The K best candidates of each of B queries, best first."""

    positions: Tensor  # (B, K) in the gallery
    scores: Tensor  # (B, K)
    vectors: Tensor  # (B, K, V, D)
    gallery_ids: Sequence[Id]

    @property
    def ids(self) -> list[list[Id]]:
        """The candidates' ids, one list per query."""
        return [[self.gallery_ids[p] for p in row] for row in self.positions.tolist()]

    def top(self, count: int) -> Hits:
        """The first `count` of each query."""
        count = at_least_one(count)
        return replace(
            self,
            positions=self.positions[:, :count],
            scores=self.scores[:, :count],
            vectors=self.vectors[:, :count],
        )

    def to(self, device: torch.device | str) -> Hits:
        """The same hits on another device."""
        return replace(
            self,
            positions=self.positions.to(device),
            scores=self.scores.to(device),
            vectors=self.vectors.to(device),
        )

    def __len__(self) -> int:
        return len(self.positions)


def at_least_one(count: int) -> int:
    """`count` as a plain int, or an error: at least one hit must be asked for."""
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if isinstance(count, bool) or whole < 1:
        raise BadInput(f"asked for {count!r} hits, expected a whole number of at least 1.")
    return whole
