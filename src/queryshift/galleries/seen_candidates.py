"""Candidates found by an engine: their vectors, searched again in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.errors import BadInput

from .candidate_checks import checked_ids
from .hits import Hits, Id
from .memory.memory_gallery import Gallery


class Found(NamedTuple):
    """The candidates that an engine finds for one query.

    Args:
        ids: the candidates' ids, best first.
        vectors: their vectors, (k, D), or (k, V, D) for several per candidate.

    Examples:
        >>> import numpy as np
        >>> from queryshift.galleries import Found
        >>> Found(["a", "b"], np.eye(2, dtype=np.float32)).ids
        ['a', 'b']
    """

    ids: Sequence[Id]
    vectors: NDArray[np.float32]


class SeenCandidates:
    """Candidates with handles, ids and vectors. A value: it never changes.

    A handle is used as a position: a number that stays the same for a candidate as long as the
    gallery object lives.
    """

    def __init__(self, handles: Tensor, gallery: Gallery) -> None:
        self.handles, self.gallery = handles, gallery  # in the order of the handles

    @classmethod
    def of(cls, handles: Sequence[int], ids: Sequence[Id], vectors: Tensor) -> SeenCandidates:
        """Make them from candidates in any order, each once; vectors (N, V, D)."""
        ordered, order = torch.tensor(handles, device="cpu").sort()
        device = vectors.device
        kept = Gallery([ids[row] for row in order.tolist()], vectors[order.to(device)])
        return cls(ordered.to(device), kept)

    def joined(self, more: SeenCandidates) -> SeenCandidates:
        """Return these candidates and more; a candidate of both keeps the vectors it has here."""
        new = (~torch.isin(more.handles, self.handles)).nonzero().flatten().tolist()
        vectors = torch.cat((self.gallery.vectors, more.gallery.vectors[new]))
        return self.of(
            [*self.handles.tolist(), *more.handles[new].tolist()],
            [*self.gallery.ids, *(more.gallery.ids[row] for row in new)],
            vectors,
        )

    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """Find the exact best of these candidates, like `Searchable.search`."""
        excluded = None if exclude is None else self._excluded_rows(exclude)
        hits = self.gallery.search(queries, count, excluded)
        handles = self.handles.to(hits.positions.device)[hits.positions]
        return Hits(handles, hits.scores, self)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """Return the ids of handles (B, K), one list per query."""
        return self.gallery.ids_at(self._rows(positions))

    def vectors_at(self, positions: Tensor) -> Tensor:
        """Return the vectors (B, K, V, D) of handles (B, K)."""
        return self.gallery.vectors_at(self._rows(positions))

    def _rows(self, handles: Tensor) -> Tensor:
        """Where these handles stand."""
        handles = handles.to(self.handles.device).contiguous()
        rows = torch.searchsorted(self.handles, handles).clamp(max=len(self.handles) - 1)
        if not torch.equal(self.handles[rows], handles):
            raise BadInput("got handles of candidates that this search has not found.")
        return rows

    def _excluded_rows(self, exclude: Tensor) -> Tensor:
        """Convert (query, handle) pairs to (query, row) pairs, without unknown handles."""
        exclude = exclude.to(self.handles.device)
        pair, row = (exclude[:, 1:] == self.handles).nonzero().T
        return torch.stack((exclude[pair, 0], row), dim=1)


def joined_answers(answers: Sequence[Found]) -> tuple[list[Id], NDArray[np.float32]]:
    """Return the ids and vectors of all candidates found, each once."""
    rows: dict[Id, int] = {}
    seen = 0
    for answer in answers:
        count = len(answer.vectors)
        rows.update(zip(checked_ids(answer.ids, count), range(seen, seen + count), strict=True))
        seen += count
    if not rows:
        raise BadInput(
            "the engine found no candidate for any query: is the collection empty, or not yet "
            "loaded?"
        )
    every = np.concatenate([answer.vectors for answer in answers if len(answer.vectors)])
    return list(rows), every[list(rows.values())]


def best_of_pieces(
    queries: NDArray[np.float32],
    pieces: Iterable[tuple[Sequence[Id], NDArray[np.float32]]],
    count: int,
) -> list[Found]:
    """Find the exact best by cosine among candidates that come in pieces: ids, and vectors (n, D).

    Examples:
        >>> import numpy as np
        >>> from queryshift.galleries.seen_candidates import best_of_pieces
        >>> pieces = [(["a"], np.float32([[1, 0]])), (["b"], np.float32([[0, 2]]))]
        >>> best_of_pieces(np.float32([[0.6, 0.8]]), pieces, 1)[0].ids
        ['b']
    """
    asked = torch.from_numpy(queries)
    best: list[list[tuple[float, Id, NDArray[np.float32]]]] = [[] for _ in queries]
    for ids, vectors in pieces:
        scores = asked @ normalize(torch.from_numpy(np.asarray(vectors)), dim=1).T
        top = scores.topk(min(count, len(ids)), dim=1)
        for hits, found, rows in zip(best, top.values.tolist(), top.indices.tolist(), strict=True):
            new = ((score, ids[row], vectors[row]) for score, row in zip(found, rows, strict=True))
            hits[:] = nlargest(count, chain(hits, new), key=itemgetter(0))
    return [
        Found([one for _, one, _ in hits], np.stack([row for *_, row in hits])) for hits in best
    ]
