"""Exact search over an engine: what an index is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from .engine import EngineGallery
from .hits import Id
from .seen_candidates import Found


class ExactSearch(EngineGallery):
    """A gallery whose every search goes past the index.

    Args:
        gallery: The engine's, with its index.
    """

    exact = True

    def __init__(self, gallery: EngineGallery) -> None:
        super().__init__(gallery.dimension, timeout=gallery.timeout)
        self.metric, self._gallery = gallery.metric, gallery

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """The exact best candidates of each query."""
        return self._gallery.find_exact(queries, count)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """The gallery's."""
        return self._gallery.sample(count, seed)

    def count(self) -> int:
        """The gallery's."""
        return self._gallery.count()

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """The gallery's."""
        return self._gallery.known(ids)


def best_of_pieces(
    queries: NDArray[np.float32],
    pieces: Iterable[tuple[Sequence[Id], NDArray[np.float32]]],
    count: int,
) -> list[Found]:
    """The exact best by cosine of candidates that come in pieces: ids, and vectors (n, D).

    Examples:
        >>> import numpy as np
        >>> from queryshift.galleries.search_without_index import best_of_pieces
        >>> pieces = [(["a"], np.float32([[1, 0]])), (["b"], np.float32([[0, 2]]))]
        >>> best_of_pieces(np.float32([[0.6, 0.8]]), pieces, 1)[0].ids
        ['b']
    """
    asked, seen = torch.from_numpy(queries), 0
    scores, numbers = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.long)
    kept: dict[int, tuple[Id, NDArray[np.float32]]] = {}
    for ids, vectors in pieces:
        scores, numbers = _merged(asked, vectors, scores, numbers, seen, count)
        best = set(numbers.flatten().tolist())
        kept = {number: kept[number] for number in kept.keys() & best}
        fresh = (number for number in best if number >= seen)
        kept.update((number, (ids[number - seen], vectors[number - seen])) for number in fresh)
        seen += len(ids)
    hits = [[kept[number] for number in row] for row in numbers.tolist()]
    return [Found([one for one, _ in hit], np.stack([row for _, row in hit])) for hit in hits]


def _merged(
    queries: Tensor,
    vectors: NDArray[np.float32],
    scores: Tensor,
    numbers: Tensor,
    seen: int,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The best scores (B, k) and their candidates' numbers, of those so far and a new piece."""
    fresh = queries @ normalize(torch.from_numpy(np.asarray(vectors)), dim=1).T
    order = torch.arange(seen, seen + len(vectors)).expand(len(queries), -1)
    scores, numbers = torch.cat((scores, fresh), dim=1), torch.cat((numbers, order), dim=1)
    best = scores.topk(min(count, scores.shape[1]), dim=1)
    return best.values, numbers.gather(1, best.indices)
