"""What a session needs of a gallery, wherever it is, and how broadly an index is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from .hits import Hits, Id


class Searchable(Protocol):
    """A gallery in this process, in another one, or on another machine.

    Candidates have positions: whole numbers, each equal for the same candidate as long as the
    gallery object lives. In memory they count the candidates; a search engine numbers candidates
    as it meets them, and its positions are handles.

    Examples:
        >>> import queryshift as qs
        >>> def size(gallery: qs.Searchable) -> tuple[int, int]:
        ...     return len(gallery), gallery.dimension
        >>> size(qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]]))
        (2, 2)
    """

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def version(self) -> str:
        """Text that changes when the candidates do: saved sessions are compared by it."""

    @property
    def vectors(self) -> Tensor:
        """Unit vectors (N, V, D), or NeedsVectors where they cannot be had."""

    def __len__(self) -> int: ...

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The best candidates of each query.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query; an engine may give fewer, equally many for all queries.
            exclude: (query, position) pairs (P, 2) that must not be found; the query with the most
                of them bounds `count` for all.

        Returns:
            Hits on the queries' device, best first.
        """

    def centroids(self, count: int) -> Tensor:
        """Centres of the candidates' clusters.

        Args:
            count: How many centres.

        Returns:
            Unit vectors (min(count, N), D).
        """

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Which of some ids are candidates now.

        Args:
            ids: Ids of any kind.

        Returns:
            Those that are there.
        """

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """The positions of candidates.

        Args:
            ids: A list of ids; one that is not there is a `BadInput`.

        Returns:
            A position for each id.
        """

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids at positions.

        Args:
            positions: (B, K), as hits have them.

        Returns:
            One list of ids per query.
        """


@dataclass(frozen=True)
class SearchEffort:
    """What widens a search: more of it finds more, and takes longer.

    Args:
        name: the option of the gallery's address: "ef", "nprobe", "probes".
        value: how broadly the gallery searches now.
        largest: the most that the engine allows.

    Examples:
        >>> from queryshift.galleries.searchable import SearchEffort
        >>> str(SearchEffort("ef", 256, 1000))
        'ef=256'
    """

    name: str
    value: int
    largest: int

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
