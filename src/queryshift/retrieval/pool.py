"""One engine search per batch: its hits with their vectors, searched again in memory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from queryshift.galleries import EngineGallery, Hits, Id
from queryshift.galleries.seen_candidates import SeenCandidates
from queryshift.support.threads import RenewedRLock

DEPTH = 100  # hits fetched for each query of a batch


class Pool:
    """What an engine finds for one batch, as a gallery; the first search fills it.

    The first search fetches the best `depth` candidates of all queries from the engine. That
    search and all later ones, with other vectors of the same queries, are exact over the union of
    those candidates. The engine is asked again only for more than `depth` hits.

    Args:
        gallery: the engine's gallery.
        depth: number of candidates to fetch for each query.
        queries: all vectors (B, D) of the first search; None: those it is called with.
        exclude: their exclusions.
    """

    def __init__(
        self,
        gallery: EngineGallery,
        depth: int,
        queries: Tensor | None = None,
        exclude: Tensor | None = None,
    ) -> None:
        self.gallery, self.depth = gallery, depth
        self._queries, self._exclude = queries, exclude
        self._asked, self._met = 0, list[SeenCandidates]()
        self._centroids: dict[int, Tensor] = {}
        self._filling = RenewedRLock()

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The best `count` candidates of each query (B, D) in the pool."""
        with self._filling:
            if count > self._asked:
                self._fill(queries, count, exclude)
            met = self._met[0]
        return met.search(queries, count, exclude)

    def centroids(self, count: int) -> Tensor:
        """The engine's centroids, the same for all steps of the batch."""
        if count not in self._centroids:
            self._centroids[count] = self.gallery.centroids(count)
        return self._centroids[count]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.gallery.dimension

    @property
    def version(self) -> str:
        """The version of the engine's gallery."""
        return self.gallery.version

    @property
    def vectors(self) -> Tensor:
        """An error: an engine cannot give all vectors."""
        return self.gallery.vectors

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Which of these ids the engine has."""
        return self.gallery.known(ids)

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """The engine's handles of these ids."""
        return self.gallery.positions(ids)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids of handles (B, K), one list per query."""
        return self.gallery.ids_at(positions)

    def __len__(self) -> int:
        return len(self.gallery)

    def _fill(self, queries: Tensor, count: int, exclude: Tensor | None) -> None:
        """Fetch hits of these queries; the first time, of all queries given to the constructor."""
        if not self._met and self._queries is not None:
            queries, exclude = self._queries, self._exclude
        asked = max(count, self.depth)
        fetched = self.gallery.fetch(queries, asked, exclude)
        self._met = [self._met[0].joined(fetched) if self._met else fetched]
        self._asked = asked
