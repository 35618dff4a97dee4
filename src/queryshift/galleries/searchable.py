"""The interface of galleries that sessions use, and the effort of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from .hits import Hits, Id


class Searchable(Protocol):
    """A gallery in this process, in another one, or on another machine.

    Candidates have positions: whole numbers that stay the same as long as the gallery object
    lives. In memory they count the candidates. A gallery in a search engine numbers candidates
    when it first finds them; we call these positions handles.

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
        """Text that changes when the candidates change; saved sessions compare it."""

    @property
    def vectors(self) -> Tensor:
        """Unit vectors (N, V, D); raises NeedsVectors if the gallery cannot give them."""

    def __len__(self) -> int: ...

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """Find the best candidates of each query.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query. An engine may return fewer, the same number for all.
            exclude: (query, position) pairs (P, 2) that must not be found. The query with the most
                exclusions limits `count` for all.

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
        """Find out which ids are candidates now.

        Args:
            ids: Ids of any kind.

        Returns:
            The ids that are candidates.
        """

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """The positions of candidates.

        Args:
            ids: A list of ids; an unknown one raises `BadInput`.

        Returns:
            A position for each id.
        """

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids at positions.

        Args:
            positions: (B, K), as in hits.

        Returns:
            One list of ids per query.
        """


@dataclass(frozen=True)
class SearchEffort:
    """The effort of a search in an index: more of it finds more, and takes longer.

    Args:
        name: the option in the gallery's address: "ef", "nprobe", "probes".
        value: the effort that is used now.
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
