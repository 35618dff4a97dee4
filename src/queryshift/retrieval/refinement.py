"""Query prediction refinement: a few telling candidates instead of the whole gallery (Eq. 4-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from queryshift.galleries import Gallery, Searchable
from queryshift.galleries.exclusions import excluded_cells
from queryshift.galleries.memory.exact_search import best_vectors, similarity

from .forward import Forward

Duplicates = Literal["keep", "merge"]


@dataclass(frozen=True)
class RefinedPrediction:
    """A prediction over each query's positive, the other queries' lists, and the centroids.

    Column 0 is the query's own positive, then come the listed candidates, last the centroids.
    """

    queries: Tensor  # (B, D)
    positives: Tensor  # (B, V, D) each query's nearest candidate
    listed: Tensor  # (L, V, D) candidates some query lists, in the order of the queries
    centroids: Tensor  # (K, D)
    places: Tensor  # (L,) positions of the listed candidates in the gallery
    nearest: Tensor  # (B,) position of each query's positive
    hidden: Tensor  # (B, L) True where a listed candidate is not this query's
    temperature: float
    gallery: Searchable = field(repr=False, compare=False)  # that the candidates are of
    computed: dict[bool, Tensor] = field(default_factory=dict, repr=False)  # by graph or none

    @property
    def similarities(self) -> Tensor:
        """Similarity (B, C) of each query to each column; -inf where a column is not its own.

        Computed once with a graph, and before that once for callers who need none.
        """
        graph = torch.is_grad_enabled()
        kept = True if True in self.computed else graph
        if kept not in self.computed:
            self.computed[kept] = self.similarities_of(self.queries)
        return self.computed[kept]

    @property
    def logits(self) -> Tensor:
        """Similarities over the temperature."""
        return self.similarities / self.temperature

    @property
    def positive(self) -> Tensor:
        """Column (B,) of each query's positive."""
        return torch.zeros_like(self.nearest)

    def similarities_of(self, queries: Tensor) -> Tensor:
        """Similarity (B, C) of other vectors of the same queries to the very same columns."""
        return _similarities(queries, self.positives, self.listed, self.centroids, self.hidden)

    def similarities_in(self, forward: Forward) -> Tensor:
        """Similarity (B, C) of another forward of the same queries to the same candidates there.

        A method may move a gallery in memory too: then the candidates have other vectors in it.
        """
        if forward.gallery is self.gallery or not isinstance(self.gallery, Gallery):
            return self.similarities_of(forward.vectors)
        candidates = forward.gallery.vectors.to(forward.vectors)
        positives, listed = candidates[self.nearest], candidates[self.places]
        centroids = forward.gallery.centroids(len(self.centroids)).to(forward.vectors)
        return _similarities(forward.vectors, positives, listed, centroids, self.hidden)

    def changed_similarities(self, queries: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The same with every candidate's vectors changed."""
        positives, listed = change(self.positives), change(self.listed)
        return _similarities(queries, positives, listed, change(self.centroids), self.hidden)

    def summed(self, shares: Tensor) -> Tensor:
        """Each listed candidate's and centroid's share of the batch, from shares (B, C).

        A candidate stands in several columns, and column 0 is another one for every query.
        """
        places = torch.cat((self.nearest, self.places))
        unique, candidate = torch.unique(places, return_inverse=True)
        end = 1 + len(self.places)
        by_place = torch.cat((shares[:, 0], shares[:, 1:end].sum(dim=0)))
        listed = by_place.new_zeros(len(unique)).index_add(0, candidate, by_place)
        return torch.cat((listed, shares[:, end:].sum(dim=0)))

    def hardest(self) -> tuple[Tensor, Tensor]:
        """Similarity (B,) of the positive and of the hardest real negative (the positive if none).

        A copy of the positive that another query lists is no negative (k != j in Eq. 14).
        """
        positive, best = self.similarities[:, 0], self._negatives().amax(dim=1)
        return positive, torch.where(torch.isfinite(best), best, positive)

    @torch.no_grad()
    def pairs(self) -> Tensor:
        """Places (B, 2) of the positive and of the hardest real negative (the positive if none)."""
        best, column = self._negatives().max(dim=1)
        hardest = torch.where(torch.isfinite(best), self.places[column], self.nearest)
        return torch.stack((self.nearest, hardest), dim=1)

    def _negatives(self) -> Tensor:
        """Similarity (B, L) to the listed candidates; -inf for hidden ones and the positive."""
        listed = self.similarities[:, 1 : 1 + len(self.places)]
        return listed.masked_fill(self.places == self.nearest[:, None], -torch.inf)

    def detach(self) -> RefinedPrediction:
        """The same without a graph."""
        computed = list(self.computed.values())[-1:]
        kept = {False: computed[0].detach()} if computed else {}
        return replace(self, queries=self.queries.detach(), computed=kept)


def refine(
    queries: Tensor, gallery: Searchable, neighbours: int = 10, temperature: float = 0.02
) -> RefinedPrediction:
    """The refined prediction of query vectors (B, D) over a gallery."""
    return refined(Forward(queries, gallery), neighbours, temperature)


def refined(
    forward: Forward,
    neighbours: int,
    temperature: float,
    duplicates: Duplicates = "keep",
    own_copies: bool = True,
) -> RefinedPrediction:
    """The refined prediction of a forward, with the choices the paper leaves open.

    It is built once for each choice and forward; another temperature shares what it has computed.
    """
    key = ("refined", neighbours, duplicates, own_copies)
    prediction: RefinedPrediction | None = forward.cache.get(key)
    if prediction is None:
        prediction = _built(forward, neighbours, duplicates, own_copies)
        forward.cache[key] = prediction
    return replace(prediction, temperature=temperature)


def _built(
    forward: Forward, neighbours: int, duplicates: Duplicates, own_copies: bool
) -> RefinedPrediction:
    hits = forward.hits(neighbours)
    vectors, listed = hits.vectors, hits.positions
    query = torch.arange(len(forward), device=listed.device)
    owner = query[:, None].expand_as(listed).flatten()  # (L,)
    places, candidates = listed.flatten(), vectors.flatten(0, 1)
    hidden = owner == query[:, None]  # (B, L) a query's own list
    if duplicates == "merge":
        places, candidates, hidden = _merged(places, candidates, hidden)
    if duplicates == "merge" or not own_copies:
        hidden = hidden | (places == listed[:, :1])
    if forward.exclude is not None:
        hidden[excluded_cells(forward.exclude, hidden.shape, columns=places)] = True
    positives = vectors[:, 0]
    centroids = forward.gallery.centroids(neighbours).to(forward.vectors)
    return RefinedPrediction(
        forward.vectors,
        positives,
        candidates,
        centroids,
        places,
        listed[:, 0],
        hidden,
        1.0,
        forward.gallery,
    )


def _similarities(
    queries: Tensor, positives: Tensor, listed: Tensor, centroids: Tensor, hidden: Tensor
) -> Tensor:
    """Similarity (B, C) to each query's positive, the listed candidates and the centroids."""
    positive = (queries * best_vectors(queries, positives)).sum(dim=1, keepdim=True)
    others = similarity(queries, listed).masked_fill(hidden, -torch.inf)
    return torch.cat((positive, others, queries @ centroids.T), dim=1)


def _merged(places: Tensor, vectors: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each listed candidate once; hidden from a query if no other query lists it."""
    unique, inverse = torch.unique(places, return_inverse=True)
    shown = torch.zeros(len(hidden), len(unique), device=places.device)
    shown.index_add_(1, inverse, (~hidden).to(shown.dtype))
    first = torch.zeros_like(unique).scatter_(
        0, inverse, torch.arange(len(places), device=places.device)
    )
    return unique, vectors[first], shown == 0
