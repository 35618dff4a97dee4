"""What a session needs of a gallery, wherever its candidates lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from .hits import Hits, Id


class Searchable(Protocol):
    """A gallery in this process, in another one, or on another machine."""

    @property
    def ids(self) -> Sequence[Id]:
        """The candidates' ids, by position."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def vectors(self) -> Tensor:
        """Unit vectors (N, V, D), or NeedsVectors where they cannot be had."""

    def __len__(self) -> int: ...

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The best `count` candidates of each query (B, D), on the queries' device.

        `exclude` holds (query, position) pairs, (P, 2), that must not be found; the query with the
        most of them bounds `count` for all.
        """

    def centroids(self, count: int) -> Tensor:
        """Unit centres (min(count, N), D) of the candidates' clusters."""

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """Where these ids stand; an id that is not there is an error."""
