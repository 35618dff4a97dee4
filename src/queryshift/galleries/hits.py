"""Hits: the best candidates of each query, best first."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from queryshift.errors import BadInput

Id: TypeAlias = str | int


def is_id(value: Any) -> bool:
    """Return whether a value can be an id: text or a whole number, also NumPy's."""
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


class Candidates(Protocol):
    """Looks up the ids and vectors of hits."""

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids at positions (B, K), one list per query."""

    def vectors_at(self, positions: Tensor) -> Tensor:
        """The vectors (B, K, V, D) at positions (B, K)."""


@dataclass(frozen=True)
class Hits:
    """The K best candidates of each of B queries, best first.

    Attributes:
        positions: (B, K), the position of each candidate in the gallery.
        scores: (B, K), in the order of the ranking; cosines unless a stage re-ranked them.
        candidates: looks up `ids` and `vectors` when you read them.

    Examples:
        >>> import torch
        >>> import queryshift as qs
        >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
        >>> hits = gallery.search(torch.tensor([[0.6, 0.8]]), 2)
        >>> hits.ids, hits.positions.tolist(), hits.vectors.shape
        ([['b', 'a']], [[1, 0]], torch.Size([1, 2, 1, 2]))
    """

    positions: Tensor
    scores: Tensor
    candidates: Candidates = field(compare=False, repr=False)

    @property
    def ids(self) -> list[list[Id]]:
        """The candidates' ids, one list per query."""
        return self.candidates.ids_at(self.positions)

    @property
    def vectors(self) -> Tensor:
        """The candidates' vectors (B, K, V, D), in the precision and on the device of the scores.

        Each call fetches them, so hits take little memory until then.
        """
        return self.candidates.vectors_at(self.positions).to(self.scores)

    def top(self, count: int) -> Hits:
        """The first hits of each query.

        Args:
            count: How many; fewer if there are fewer.

        Returns:
            Hits of at most that many.
        """
        count = at_least_one(count)
        if count >= self.positions.shape[1]:
            return self
        return Hits(self.positions[:, :count], self.scores[:, :count], self.candidates)

    def to(self, device: torch.device | str) -> Hits:
        """The same hits on another device.

        Args:
            device: A torch device, or its name.

        Returns:
            Hits whose positions and scores are there.
        """
        positions = self.positions.to(device, non_blocking=True)  # the scores' copy waits for both
        return Hits(positions, self.scores.to(device), self.candidates)

    def __len__(self) -> int:
        return len(self.positions)


def at_least_one(count: int, of: str = "hits") -> int:
    """Return `count` as a plain int, or raise an error if it is not at least 1."""
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if isinstance(count, bool) or whole < 1:
        raise BadInput(f"asked for {count!r} {of}, expected a whole number of at least 1.")
    return whole
