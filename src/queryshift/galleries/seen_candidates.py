"""Candidates that an engine has answered with: their vectors, searched again in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from queryshift.errors import BadInput

from .hits import Hits, Id
from .memory.memory_gallery import Gallery


class SeenCandidates:
    """Candidates with handles, ids and vectors. A value: it never changes.

    A handle takes the place of a position: an int that is equal for the same candidate while the
    gallery object lives.
    """

    def __init__(self, handles: Tensor, gallery: Gallery) -> None:
        self.handles, self.gallery = handles, gallery  # in the order of the handles

    @classmethod
    def of(cls, handles: Sequence[int], ids: Sequence[Id], vectors: Tensor) -> SeenCandidates:
        """Candidates in any order, each once; vectors (N, V, D)."""
        ordered, order = torch.tensor(handles, device="cpu").sort()
        device = vectors.device
        kept = Gallery([ids[row] for row in order.tolist()], vectors[order.to(device)])
        return cls(ordered.to(device), kept)

    def joined(self, more: SeenCandidates) -> SeenCandidates:
        """These candidates and more; where both have one, it is taken from these."""
        new = (~torch.isin(more.handles, self.handles)).nonzero().flatten().tolist()
        vectors = torch.cat((self.gallery.vectors, more.gallery.vectors[new]))
        return self.of(
            [*self.handles.tolist(), *more.handles[new].tolist()],
            [*self.gallery.ids, *(more.gallery.ids[row] for row in new)],
            vectors,
        )

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The exact best of these candidates, as `Searchable.search` gives them."""
        excluded = None if exclude is None else self._excluded_rows(exclude)
        hits = self.gallery.search(queries, count, excluded)
        handles = self.handles.to(hits.positions.device)[hits.positions]
        return Hits(handles, hits.scores, self)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids of handles (B, K), one list per query."""
        return self.gallery.ids_at(self._rows(positions))

    def vectors_at(self, positions: Tensor) -> Tensor:
        """The vectors (B, K, V, D) of handles (B, K)."""
        return self.gallery.vectors_at(self._rows(positions))

    def _rows(self, handles: Tensor) -> Tensor:
        """Where these handles stand."""
        handles = handles.to(self.handles.device).contiguous()
        rows = torch.searchsorted(self.handles, handles).clamp(max=len(self.handles) - 1)
        if not torch.equal(self.handles[rows], handles):
            raise BadInput("got handles of candidates that this search has not found.")
        return rows

    def _excluded_rows(self, exclude: Tensor) -> Tensor:
        """(query, handle) pairs as (query, row) pairs of those that are here."""
        exclude = exclude.to(self.handles.device)
        pair, row = (exclude[:, 1:] == self.handles).nonzero().T
        return torch.stack((exclude[pair, 0], row), dim=1)
