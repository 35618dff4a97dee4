"""A segment of a gallery: candidates that lie together, and never change."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.support.threads import lazy_property

from ..hits import Id


@dataclass(frozen=True, eq=False)
class RowSegment:
    """Candidates of a gallery in memory. A value: galleries share it."""

    ids: list[Id]
    vectors: Tensor  # (N, V, D)
    lengths: Tensor | None = None  # (N, V) of the vectors where not all have unit length

    def __len__(self) -> int:
        return len(self.vectors)

    @lazy_property
    def row_of(self) -> dict[Id, int]:
        """The row of each id; made when the first candidate is looked up."""
        return {one: row for row, one in enumerate(self.ids)}

    def unit(self, rows: Tensor | None = None) -> Tensor:
        """Unit vectors of some rows, or of all; without a copy where all are such already."""
        vectors = self.vectors if rows is None else self.vectors[rows]
        if self.lengths is None:
            return vectors
        lengths = self.lengths if rows is None else self.lengths[rows]
        return torch.div(vectors, lengths[..., None]).to(vectors.dtype)

    def joined(self, later: RowSegment) -> RowSegment:
        """A segment of these candidates and of those of another one behind them."""
        return RowSegment([*self.ids, *later.ids], torch.cat((self.unit(), later.unit())))
