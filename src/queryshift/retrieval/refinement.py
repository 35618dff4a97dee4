"""Query prediction refinement: a few telling candidates instead of the whole gallery (Eq. 4-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from queryshift.galleries import Searchable
from queryshift.support.lazy import lazy_property

from .forward import Forward, best_vectors, similarity

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
    places: Tensor  # (L,) where the listed candidates stand in the gallery
    nearest: Tensor  # (B,) where each query's positive stands
    hidden: Tensor  # (B, L) True where a listed candidate is not this query's
    temperature: float

    @lazy_property
    @torch.enable_grad()  # computed once, perhaps first by someone who needs no graph
    def similarities(self) -> Tensor:
        """Similarity (B, C) of each query to each column; -inf where a column is not its own."""
        return self.seen_by(self.queries)

    @property
    def logits(self) -> Tensor:
        """Similarities over the temperature."""
        return self.similarities / self.temperature

    @property
    def positive(self) -> Tensor:
        """Column (B,) of each query's positive."""
        return torch.zeros(len(self.queries), dtype=torch.long, device=self.queries.device)

    def seen_by(self, queries: Tensor) -> Tensor:
        """What other vectors of the same queries find in the very same columns."""
        own = (queries[:, None] * self.positives_of(queries)).sum(dim=2)
        others = similarity(queries, self.listed).masked_fill(self.hidden, -torch.inf)
        return torch.cat((own, others, queries @ self.centroids.T), dim=1)

    def changed(self, change: Callable[[Tensor], Tensor]) -> RefinedPrediction:
        """The same columns with every candidate's vectors changed."""
        return replace(
            self,
            positives=change(self.positives),
            listed=change(self.listed),
            centroids=change(self.centroids),
        )

    def positives_of(self, queries: Tensor) -> Tensor:
        """The vector (B, 1, D) of each query's positive that is nearest to it."""
        return best_vectors(queries, self.positives)[:, None]

    def summed(self, shares: Tensor) -> Tensor:
        """Each listed candidate's and centroid's share of the batch, from shares (B, C).

        A candidate stands in several columns, and column 0 is another one for every query.
        """
        places = torch.cat((self.nearest, self.places))
        unique, candidate = torch.unique(places, return_inverse=True)
        end = 1 + len(self.places)
        found = torch.cat((shares[:, 0], shares[:, 1:end].sum(dim=0)))
        listed = found.new_zeros(len(unique)).index_add(0, candidate, found)
        return torch.cat((listed, shares[:, end:].sum(dim=0)))

    def hardest(self) -> tuple[Tensor, Tensor]:
        """Similarity (B,) of the positive and of the hardest real negative (the positive if none).

        Where another query lists the positive too, that copy is the hardest: nothing is pushed.
        """
        real = self.similarities[:, : 1 + self.hidden.shape[1]]
        positive, negatives = real[:, 0], real[:, 1:]
        if negatives.shape[1] == 0:
            return positive, positive
        best = negatives.amax(dim=1)
        return positive, torch.where(torch.isfinite(best), best, positive)

    @torch.no_grad()
    def pairs(self) -> Tensor:
        """Places (B, 2) of the positive and of the hardest real negative (the positive if none)."""
        real = self.similarities[:, 1 : 1 + self.hidden.shape[1]]
        if real.shape[1] == 0:
            return torch.stack((self.nearest, self.nearest), dim=1)
        best, column = real.max(dim=1)
        hardest = torch.where(torch.isfinite(best), self.places[column], self.nearest)
        return torch.stack((self.nearest, hardest), dim=1)


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
    """The refined prediction of a retrieval, with the choices the paper leaves open."""
    hits = forward.hits(neighbours)
    listed, lister = hits.positions, torch.arange(len(forward), device=hits.positions.device)
    owner = lister[:, None].expand_as(listed).flatten()  # (L,)
    flat, vectors = listed.flatten(), hits.vectors.flatten(0, 1)
    hidden = owner == lister[:, None]  # (B, L) a query's own list
    if duplicates == "merge":
        flat, vectors, hidden = _merged(flat, vectors, hidden)
    if duplicates == "merge" or not own_copies:
        hidden = hidden | (flat == listed[:, :1])
    if forward.exclude is not None:
        hidden = hidden | _excluded(forward.exclude.to(flat.device), flat, len(forward))
    return RefinedPrediction(
        queries=forward.vectors,
        positives=hits.vectors[:, 0],
        listed=vectors,
        centroids=forward.gallery.centroids(neighbours).to(forward.vectors),
        places=flat,
        nearest=listed[:, 0],
        hidden=hidden,
        temperature=temperature,
    )


def _merged(flat: Tensor, vectors: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each listed candidate once; hidden from a query if nobody else lists it."""
    unique, inverse = torch.unique(flat, return_inverse=True)
    shown = torch.zeros(len(hidden), len(unique), device=flat.device)
    shown.index_add_(1, inverse, (~hidden).to(shown.dtype))
    first = torch.zeros_like(unique).scatter_(
        0, inverse, torch.arange(len(flat), device=flat.device)
    )
    return unique, vectors[first], shown == 0


def _excluded(exclude: Tensor, flat: Tensor, queries: int) -> Tensor:
    """(B, L) True where a listed candidate is excluded for the query."""
    rows, positions = exclude.T
    pairs = torch.zeros(queries, len(flat), dtype=torch.bool, device=flat.device)
    which, columns = (positions[:, None] == flat).nonzero().T
    pairs[rows[which], columns] = True
    return pairs
