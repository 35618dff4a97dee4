"""Candidates in memory, searched exactly: their rows, and what a session needs of a gallery."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.support.threads import lazy_property, one_torch_thread_after_forks
from queryshift.support.torch_modes import without_autocast, without_inference_mode

from ..candidate_checks import check_searched
from ..clusters import spherical_kmeans
from ..hits import Hits, Id, at_least_one, is_id
from .exact_search import best_rows, left_for_all

DEAD_SHARE = 8  # one row in so many may be dead; beyond that, the others are copied together


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
        if len(self.dead):
            vectors = self[torch.arange(len(self), device="cpu")]
        else:
            vectors = torch.cat([segment.unit() for segment in self.segments])
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


class ExactGallery:
    """Candidates in rows, searched exactly, on any device. A value: it never changes."""

    def __init__(self, rows: CandidateRows) -> None:
        self._rows = rows
        self._centroids: dict[int, Tensor] = {}
        one_torch_thread_after_forks()

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

    @lazy_property
    def version(self) -> str:
        """A short hash of how many candidates there are and of a sample of their ids."""
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
        check_searched(queries, exclude, self.dimension)
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
