"""How close a bank of queries is to the hits of one search, if not all candidates are scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from queryshift.galleries import Searchable
from queryshift.support.threads import lazy_property

from .query_bank import AT_ONCE, LEAST, WEIGHTS, Moments, QueryBank, Scale

CENTRES = 256  # centroids of the gallery that the spread is measured on


@dataclass(frozen=True)
class CentreMoments:
    """Moments of a bank's similarities to a gallery's centroids."""

    centres: Tensor  # (c, D)
    moments: Moments

    @classmethod
    def of(cls, bank: QueryBank, gallery: Searchable) -> CentreMoments:
        """The moments of a whole bank."""
        return cls(gallery.centroids(CENTRES), Moments()).plus(bank)

    def plus(self, rows: QueryBank) -> CentreMoments:
        """Add rows."""
        return replace(self, moments=self.moments + self._of(rows))

    def minus(self, rows: QueryBank) -> CentreMoments:
        """Take rows off."""
        return replace(self, moments=self.moments - self._of(rows))

    @property
    def scale(self) -> Scale:
        """How similarities become weights."""
        return Scale(self.moments.mean, self.moments.spread)

    def _of(self, rows: QueryBank) -> Moments:
        if not len(rows):
            return Moments()
        queries = rows.vectors.float()
        return Moments.of(queries @ self.centres.to(queries).T)


@dataclass(frozen=True)
class HitSums:
    """Sums over a bank for each of some candidates."""

    bank: QueryBank
    positions: Tensor  # (U,) the candidates, in order
    vectors: Tensor  # (U, V, D)
    scale: Scale

    @lazy_property
    def of_all(self) -> Tensor:
        """How close the bank's queries are to each candidate (U,)."""
        return self._nearness([_sums(weights) for _, weights in self._weights()])

    @lazy_property
    def others(self) -> Tensor:
        """The same without queries whose top-1 result it is."""
        parts = []
        for start, weights in self._weights():
            least = _sums(weights) * LEAST
            self._drop_own(start, weights)
            parts.append(torch.maximum(_sums(weights), least))
        vars(self).pop(WEIGHTS, None)  # now they are those of others
        return self._nearness(parts)

    def left(self, removed: int, bank: QueryBank, scale: Scale) -> HitSums:
        """The sums after the oldest rows have left; computed again if the spread has changed."""
        left = HitSums(bank, self.positions, self.vectors, scale)
        weights: Tensor | None = vars(self).pop(WEIGHTS, None)
        if weights is None or scale.spread != self.scale.spread:
            return left
        left = replace(left, scale=self.scale)
        vars(left)[WEIGHTS] = weights[removed:]
        return left

    def _weights(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first candidate and the weights (n, u) of some at a time, or of all if few."""
        if WEIGHTS in vars(self):
            yield 0, vars(self)[WEIGHTS]
            return
        queries, count = self.bank.vectors.float(), len(self.positions)
        width = max(1, AT_ONCE // max(1, len(self.bank) * self.vectors.shape[1]))
        for start in range(0, count, width):
            weights = self.scale.weights_of(queries, self.vectors[start : start + width])
            if width >= count:
                vars(self)[WEIGHTS] = weights
            yield start, weights

    def _drop_own(self, start: int, weights: Tensor) -> None:
        """Set weights (n, u) to 0 at the rows' top-1 results, before and after correction."""
        rows = torch.arange(len(self.bank), device=weights.device)
        for places in (self.bank.nearest, self.bank.assigned):
            columns = torch.searchsorted(self.positions, places).clamp_(max=len(self.positions) - 1)
            own = self.positions[columns] == places
            columns = columns - start
            own &= (columns >= 0) & (columns < weights.shape[1])
            columns = columns.clamp_(0, weights.shape[1] - 1)
            weights[rows, columns] = weights[rows, columns].masked_fill(own, 0)

    def _nearness(self, sums: list[Tensor]) -> Tensor:
        return self.scale.nearness(torch.cat(sums))


def _sums(weights: Tensor) -> Tensor:
    """The sum (u,) of each column."""
    return torch.mv(weights.T, weights.new_ones(len(weights)))
