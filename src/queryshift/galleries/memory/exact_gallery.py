"""Exact search over candidates in memory: what a session needs of such a gallery."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from queryshift.errors import BadInput, GalleryMismatch
from queryshift.support.threads import lazy_property
from queryshift.support.torch_modes import without_autocast, without_inference_mode

from ..candidate_checks import check_searched
from ..clusters import spherical_kmeans
from ..hits import Hits, Id, at_least_one
from .candidate_rows import CandidateRows
from .exact_search import best_rows, left_for_all


class ExactGallery:
    """Candidates in rows, searched exactly, on any device. A value: it never changes."""

    def __init__(self, rows: CandidateRows) -> None:
        self._rows = rows
        self._centroids: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        count = self._stored.shape[1]
        several = f", {count} vectors each" if count > 1 else ""
        return f"Gallery({len(self):,} candidates, {self.dimension} dimensions{several})"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._stored.shape[2]

    @lazy_property
    def ids(self) -> list[Id]:
        """The candidates' ids, in the order of their positions."""
        return self._rows.compact_ids()

    @property
    def vectors(self) -> Tensor:
        """Unit vectors (N, V, D), in the order of the positions.

        After `add` or `remove`, and for a memory map of vectors of other lengths, the first call
        copies them together.
        """
        self._rows = self._rows.compact()
        return self._stored

    @property
    def version(self) -> str:
        """A short hash of how many candidates there are and of a sample of their ids."""
        return self._version

    @lazy_property
    def _version(self) -> str:
        step = max(1, len(self) // 256)
        last = (len(self) - 1) // step * step
        sampled = [*range(0, last, step), *range(last, len(self))]  # `add` changes the end
        (sample,) = self.ids_at(torch.tensor([sampled], device="cpu"))
        return blake2b(repr((len(self), sample)).encode(), digest_size=16).hexdigest()

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Which of these ids are candidates.

        Args:
            ids: Ids of any kind.

        Returns:
            Those that are here.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a"], [[1.0, 0.0]]).known(["a", "b"])
            {'a'}
        """
        ids = list(ids)
        return {
            one for one, place in zip(ids, self._rows.find(ids), strict=True) if place is not None
        }

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """The positions of candidates.

        Args:
            ids: A list of ids; one that is not there is refused.

        Returns:
            A position for each id.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.positions(["b"])
            [1]
        """
        if isinstance(ids, str | int):
            raise BadInput(f"got one id, {ids!r}, expected a list of them: [{ids!r}].")
        ids = list(ids)
        places = self._rows.find(ids)
        for one, place in zip(ids, places, strict=True):
            if place is None:
                raise BadInput(
                    f"no candidate has the id {one!r}; the gallery's {len(self)} ids look like "
                    f"{self.ids_at(torch.zeros(1, 1, dtype=torch.long, device='cpu'))[0][0]!r}."
                )
        return [place for place in places if place is not None]

    def centroids(self, count: int) -> Tensor:
        """Centres of the candidates by spherical k-means, computed once per count.

        Args:
            count: How many centres.

        Returns:
            Unit vectors (min(count, N), D).

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.centroids(1).shape
            torch.Size([1, 2])
        """
        count = at_least_one(count, "centroids")
        if count not in self._centroids:
            self._centroids[count] = without_inference_mode(spherical_kmeans(self._rows, count))
        return self._centroids[count]

    @torch.no_grad()
    @without_autocast()
    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The exact best candidates of each query, scored in float32 or wider.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query. All queries get equally many: no more than the one with the
                most exclusions has left.
            exclude: (query, position) pairs (P, 2) that must not be found.

        Returns:
            Hits on the queries' device.

        Examples:
            >>> import torch
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.search(torch.tensor([[0.6, 0.8]]), 2).ids
            [['b', 'a']]
        """
        check_searched(queries, exclude)
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise GalleryMismatch(
                f"got query vectors of shape {tuple(queries.shape)}, expected (queries, "
                f"{self.dimension}), as the gallery's are."
            )
        home, rows = queries.device, self._rows
        wide = torch.promote_types(queries.dtype, torch.float32)
        queries = queries.detach().to(self._stored.device, wide)
        count = min(at_least_one(count), left_for_all(len(self), exclude))
        found, scores = best_rows(queries, rows, count, exclude)
        return Hits(rows.positions_of(found), scores, self).to(home)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids of hits.

        Args:
            positions: (B, K), where the candidates stand.

        Returns:
            One list of ids per query.
        """
        return self._rows.ids_at(positions)

    def vectors_at(self, positions: Tensor) -> Tensor:
        """The vectors of hits.

        Args:
            positions: (B, K), where the candidates stand.

        Returns:
            (B, K, V, D), on the gallery's device.
        """
        return self._rows[positions]

    @property
    def _stored(self) -> Tensor:
        """The vectors of the first segment, of the shape, type and device of all."""
        return self._rows.segments[0].vectors
