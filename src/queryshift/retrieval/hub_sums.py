"""How near a bank of queries is to each candidate: running sums, or sums over some hits only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from queryshift.galleries import Searchable
from queryshift.support.lazy import lazy_property

from .query_bank import QueryBank
from .similarity import best_vectors, similarity

Block = tuple[Tensor, Tensor]  # similarities (b, N) of some queries, their first places (b, 2)

AT_ONCE = 2**24  # scores held at once: 64 MB
SMALLEST_SPREAD = 1e-4
STEPS = 8  # to a doubling of the spread
FLOOR = 10.0  # spreads that a candidate's own queries may be taken from it at most
STEEPEST = 80.0  # exponent; float32 goes to 88
CENTRES = 256  # of an engine's candidates, that the spread is measured on


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of similarities."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float:
        """Their mean; 0 of none."""
        return self.total / max(1, self.count)

    @property
    def spread(self) -> float:
        """Their standard deviation, rounded to one of eight steps to a doubling.

        Sums at this scale stay valid while it is the same: the next batch adds to them.
        """
        variance = self.squares / max(1, self.count) - self.mean**2
        exact = max(SMALLEST_SPREAD, math.sqrt(max(0.0, variance)))
        return float(2 ** (round(math.log2(exact) * STEPS) / STEPS))

    def changed(self, more: Moments, fewer: Moments) -> Moments:
        """These with more of them, and without some."""
        return Moments(
            self.count + more.count - fewer.count,
            self.total + more.total - fewer.total,
            self.squares + more.squares - fewer.squares,
        )


@dataclass(frozen=True)
class HubSums:
    """Sums over a bank for each candidate of a gallery in memory: 16 bytes a candidate.

    A row that enters or leaves the bank costs one product with the gallery; the whole bank is
    multiplied with it only where the spread has changed.
    """

    gallery: Searchable
    moments: Moments
    centre: float  # similarity that has weight 1
    total: Tensor  # (N,) weights of the bank's queries
    own: Tensor  # (N,) weights of those whose first place it is, before or after correction

    @classmethod
    def of(cls, bank: QueryBank, gallery: Searchable, moments: Moments | None = None) -> HubSums:
        """The sums of a whole bank."""
        known = _moments(_scored(bank, gallery)) if moments is None else moments
        zeros = torch.zeros(len(gallery), dtype=torch.float64, device=bank.vectors.device)
        sums = _weights(_scored(bank, gallery), zeros, known.mean, known.spread)
        return cls(gallery, known, known.mean, *sums)

    def changed(self, added: QueryBank, removed: QueryBank, bank: QueryBank) -> HubSums:
        """The sums after rows were added and removed; `bank` is what it has become."""
        more, fewer = list(_scored(added, self.gallery)), list(_scored(removed, self.gallery))
        moments = self.moments.changed(_moments(more), _moments(fewer))
        if moments.spread != self.spread or len(bank) == len(added):
            return HubSums.of(bank, self.gallery, moments)
        entering, leaving = (
            _weights(blocks, torch.zeros_like(self.own), self.centre, self.spread)
            for blocks in (more, fewer)
        )
        total = (self.total + entering[0] - leaving[0]).clamp_(min=0)
        own = (self.own + entering[1] - leaving[1]).clamp_(min=0)
        return HubSums(self.gallery, moments, self.centre, total, own)

    def claimed(self, vectors: Tensor, firsts: Tensor, claims: Tensor) -> HubSums:
        """The sums with first places after correction (b,) of rows that were added last."""
        candidates = self.gallery.vectors[claims.to(self.gallery.vectors.device)]
        queries = vectors.float()
        scores = (best_vectors(queries, candidates.to(queries)) * queries).sum(dim=1, keepdim=True)
        weights = _exponentials(scores, self.centre, self.spread)[:, 0] * (claims != firsts)
        return replace(self, own=self.own.index_add(0, claims, weights.to(self.own)))

    @property
    def spread(self) -> float:
        """The standard deviation of the bank's similarities."""
        return self.moments.spread

    @property
    def nearness_of_all(self) -> Tensor:
        """How near all of the bank's queries are to each candidate (N,)."""
        return self._nearness(self.total)

    @lazy_property
    def nearness(self) -> Tensor:
        """How near the bank's other queries are to each candidate (N,)."""
        least = self.total * math.exp(-2 * FLOOR)
        return self._nearness(torch.maximum(self.total - self.own, least))

    def _nearness(self, weights: Tensor) -> Tensor:
        return (weights.log() * (self.spread / 2) + self.centre).float()


class Nearness(NamedTuple):
    """How near a bank is to some candidates."""

    of_all: Tensor  # (U,) of its queries
    others: Tensor  # (U,) of those whose first place it is not


def spread_over(bank: QueryBank, gallery: Searchable) -> float:
    """The spread of a gallery that cannot give its vectors, from centres of its candidates."""
    queries = bank.vectors.float()
    return _moments_of(queries @ gallery.centroids(CENTRES).to(queries).T).spread


def nearness_of(bank: QueryBank, positions: Tensor, vectors: Tensor, spread: float) -> Nearness:
    """How near the bank is to candidates (U,) with vectors (U, V, D)."""
    width = max(1, AT_ONCE // max(1, len(bank) * vectors.shape[1]))
    queries, beta = bank.vectors.float(), spread / 2
    parts = []
    for start in range(0, len(positions), width):
        scores = similarity(queries, vectors[start : start + width]) / beta
        some = positions[start : start + width]
        claimed = (bank.firsts[:, None] == some) | (bank.claims[:, None] == some)
        of_all = torch.logsumexp(scores, dim=0)
        others = torch.logsumexp(scores.masked_fill(claimed, -torch.inf), dim=0)
        parts.append(torch.stack((of_all, torch.maximum(others, of_all - 2 * FLOOR))) * beta)
    of_all, others = torch.cat(parts, dim=1)
    return Nearness(of_all, others)


def _scored(bank: QueryBank, gallery: Searchable) -> Iterator[Block]:
    """Similarities (b, N) of the bank's queries, a few at a time, and their first places."""
    rows = max(1, AT_ONCE // (len(gallery) * gallery.vectors.shape[1]))
    for start in range(0, len(bank), rows):
        queries = bank.vectors[start : start + rows].float()
        scores = similarity(queries, gallery.vectors.to(queries))
        places = torch.stack((bank.firsts, bank.claims), dim=1)
        yield scores, places[start : start + rows]


def _moments(blocks: Iterable[Block]) -> Moments:
    known = Moments()
    for scores, _ in blocks:
        known = known.changed(_moments_of(scores), Moments())
    return known


def _moments_of(scores: Tensor) -> Moments:
    wide = torch.float64
    sums = torch.stack((scores.sum(dtype=wide), scores.square().sum(dtype=wide)))
    total, squares = sums.tolist()
    return Moments(scores.numel(), total, squares)


def _exponentials(scores: Tensor, centre: float, spread: float) -> Tensor:
    return (scores - centre).div_(spread / 2).clamp_(-STEEPEST, STEEPEST).exp_()


def _weights(
    blocks: Iterable[Block], zeros: Tensor, centre: float, spread: float
) -> tuple[Tensor, Tensor]:
    """Each candidate's sums (N,) of all queries, and of those whose first place it is."""
    total, own = zeros.clone(), zeros.clone()
    for scores, places in blocks:
        weights = _exponentials(scores, centre, spread)
        claimed = weights.gather(1, places)
        claimed[:, 1] *= places[:, 0] != places[:, 1]
        total += weights.sum(dim=0, dtype=total.dtype)
        own.index_add_(0, places.flatten(), claimed.flatten().to(own))
    return total, own
