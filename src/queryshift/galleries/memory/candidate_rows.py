"""The candidates of a gallery in memory, in rows that galleries share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from queryshift.support.threads import lazy_property

from ..hits import Id, is_id
from .row_segment import RowSegment

DEAD_SHARE = 8  # one row in so many may be dead; beyond that, the others are copied together


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """Segments one after the other, some of their rows dead. A value: it never changes.

    A row counts through all segments, a position through the rows that live. Rows that are added
    are a new segment, and rows that are removed are marked as dead, so that both take the time of
    what changes. A segment is joined with the one before it when that one is no more than twice as
    long: there are few of them, and a row is copied again rarely.
    """

    segments: tuple[RowSegment, ...]
    dead: Tensor  # rows, sorted, on the CPU

    @classmethod
    def of(cls, segment: RowSegment) -> CandidateRows:
        """The rows of one segment, all alive."""
        return cls((segment,), torch.empty(0, dtype=torch.long, device="cpu"))

    def __len__(self) -> int:
        return self._starts[-1] - len(self.dead)

    def __getitem__(self, positions: Tensor) -> Tensor:
        """Unit vectors (..., V, D) at positions (...), on the segments' device."""
        rows = self.rows_at(positions).to(self.segments[0].vectors.device)
        if len(self.segments) == 1:
            return self.segments[0].unit(rows)
        vectors = self.segments[0].vectors
        taken = vectors.new_empty(*rows.shape, *vectors.shape[1:])
        for start, segment in zip(self._starts, self.segments, strict=False):
            inside = (rows >= start) & (rows < start + len(segment))
            taken[inside] = segment.unit(rows[inside] - start)
        return taken

    @property
    def plain(self) -> bool:
        """Whether these are one segment of unit vectors, all alive."""
        return len(self.segments) == 1 and not len(self.dead) and self.segments[0].lengths is None

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids at positions (B, K)."""
        return [[self._id(row) for row in found] for found in self.rows_at(positions).tolist()]

    def find(self, ids: Sequence[Id]) -> list[int | None]:
        """The position of each id, None where there is no such candidate."""
        rows = [self._row(one) for one in ids]
        if not len(self.dead):
            return rows
        known = [row for row in rows if row is not None]
        found = torch.tensor(known, dtype=torch.long, device="cpu")
        places = iter(self.positions_of(found).tolist())
        return [None if row is None else next(places) for row in rows]

    def rows_at(self, positions: Tensor) -> Tensor:
        """The rows of positions, of the same shape."""
        if not len(self.dead):
            return positions
        dead_before = torch.arange(len(self.dead), device="cpu")
        before = (self.dead - dead_before).to(positions.device)  # live rows before each dead one
        return positions + torch.searchsorted(before, positions.contiguous(), right=True)

    def positions_of(self, rows: Tensor) -> Tensor:
        """The positions of rows that live, of the same shape."""
        if not len(self.dead):
            return rows
        return rows - torch.searchsorted(self.dead.to(rows.device), rows.contiguous())

    def added(self, segment: RowSegment) -> CandidateRows:
        """These rows and those of a new segment behind them."""
        segments = [*self.segments, segment]
        while len(segments) > 1 and len(segments[-2]) <= 2 * len(segments[-1]):
            last = segments.pop()
            segments[-1] = segments[-1].joined(last)
        return CandidateRows(tuple(segments), self.dead)

    def without(self, positions: Sequence[int]) -> CandidateRows:
        """These rows, those at some positions, each named once, dead."""
        gone = self.rows_at(torch.tensor(positions, dtype=torch.long, device="cpu"))
        rows = CandidateRows(self.segments, torch.cat((self.dead, gone)).sort().values)
        return rows.compact() if DEAD_SHARE * len(rows.dead) > self._starts[-1] else rows

    def compact(self) -> CandidateRows:
        """The same candidates as one segment of unit vectors without dead rows."""
        if self.plain:
            return self
        everything = torch.arange(len(self), device="cpu")
        vectors = self[everything] if len(self.dead) else _unit(self.segments)
        return CandidateRows.of(RowSegment(self.compact_ids(), vectors))

    def compact_ids(self) -> list[Id]:
        """The ids of all candidates, in the order of their positions."""
        if self.plain:
            return self.segments[0].ids
        return self.ids_at(torch.arange(len(self), device="cpu")[None])[0]

    @lazy_property
    def _starts(self) -> list[int]:
        """The first row of each segment, and the number of all rows."""
        return list(accumulate((len(segment) for segment in self.segments), initial=0))

    def _id(self, row: int) -> Id:
        if len(self.segments) == 1:
            return self.segments[0].ids[row]
        place = bisect_right(self._starts, row) - 1
        return self.segments[place].ids[row - self._starts[place]]

    def _row(self, wanted: Id) -> int | None:
        """The row of an id that lives: one that was removed may stand in a later segment again."""
        if not is_id(wanted):
            return None
        for start, segment in zip(self._starts, self.segments, strict=False):
            row = segment.row_of.get(wanted)
            if row is not None and not self._is_dead(start + row):
                return start + row
        return None

    def _is_dead(self, row: int) -> bool:
        place = int(torch.searchsorted(self.dead, row))
        return place < len(self.dead) and int(self.dead[place]) == row


def _unit(segments: Sequence[RowSegment]) -> Tensor:
    return torch.cat([segment.unit() for segment in segments])
