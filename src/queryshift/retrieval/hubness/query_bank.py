"""The latest queries of a stream, and how near they are to each candidate: running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from queryshift.galleries import EngineGallery, Searchable
from queryshift.galleries.memory.exact_search import all_scores
from queryshift.retrieval.forward import UNIT_TOLERANCE, similarity
from queryshift.support.threads import lazy_property

MIXER = 0x9E3779B97F4A7C15 - 2**64  # an odd number whose multiples spread over 64 bits
AT_ONCE = 2**24  # scores held at once: 64 MB
CACHED = 2**20  # scores that become weights at once, in the cache
AHEAD = 2**22  # weights kept of rows that leave next: 16 MB
MOST_AHEAD = 64  # such rows
SMALLEST_SPREAD = 1e-4
STEPS = 8  # to a doubling of the spread
STEEPEST = 80.0  # exponent; float32 goes to 88
LEAST = 1e-5  # share of a candidate's sum that is left without those whose first place it is


@dataclass(frozen=True)
class QueryBank:
    """The latest query vectors of a stream. A value: it never changes."""

    vectors: Tensor  # (n, D), half precision, the latest last
    firsts: Tensor  # (n,), the position of each one's first place, before any correction
    claims: Tensor  # (n,), the same after correction, when it came
    unsure: Tensor  # (n,), the chance that its best scores stood out as far by accident

    @classmethod
    def empty(cls, dimension: int, device: torch.device) -> Self:
        """A bank without queries."""
        return cls(
            torch.empty(0, dimension, dtype=torch.float16, device=device),
            torch.empty(0, dtype=torch.long, device=device),
            torch.empty(0, dtype=torch.long, device=device),
            torch.empty(0, device=device),
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def lacks(self, keys: Tensor) -> Tensor:
        """Which of some queries (B,), by their keys, neither the bank nor an earlier one is."""
        return ~(repeated(keys) | (keys[:, None] == self.keys).any(dim=1))

    def others(self, keys: Tensor) -> Tensor:
        """Which rows (n,) of the bank are none of some queries (B,), by their keys."""
        return (keys[:, None] != self.keys).all(dim=0)

    def split(self, size: int) -> tuple[QueryBank, QueryBank]:
        """The rows that are too many for a bank of this size, and the others."""
        left = max(0, len(self) - size)
        return self.taking(slice(None, left)), self.taking(slice(left, None))

    def joined(self, later: QueryBank) -> QueryBank:
        """This bank's rows and, behind them, those of another."""
        pairs = zip(self._parts(), later._parts(), strict=True)
        joined = QueryBank(*(torch.cat(pair) for pair in pairs))
        vars(joined)["keys"] = torch.cat((self.keys, later.keys))
        return joined

    def taking(self, rows: Tensor | slice) -> QueryBank:
        """Some of this bank's rows."""
        some = QueryBank(*(part[rows] for part in self._parts()))
        vars(some)["keys"] = self.keys[rows]
        return some

    @lazy_property
    def keys(self) -> Tensor:
        """A hash (n,) of each vector: no part of what is saved."""
        return keys_of(self.vectors)

    @lazy_property
    def spread_kept(self) -> Tensor:
        """How many candidates its top-1 results are spread over after correction, of those before.

        Candidates count by the inverse Simpson index: the number over which evenly spread results
        would coincide as often. Between 0 and 1; no part of what is saved.
        """
        return (_coincidences(self.firsts) / _coincidences(self.claims)).clamp(max=1)

    def moved(self, gallery: Searchable) -> QueryBank:
        """The same queries before another gallery: their first places are searched for anew."""
        if len(self) == 0:
            return self
        firsts = gallery.search(self.vectors.float(), 1).positions[:, 0]
        return replace(self, firsts=firsts, claims=firsts)

    def check(self, gallery: Searchable) -> None:
        """Refuse, with a ValueError, a bank from a file that this gallery could not be asked with.

        Args:
            gallery: The session's gallery.
        """
        shape, rows = tuple(self.vectors.shape), len(self.vectors)
        if self.vectors.ndim != 2 or shape[1] != gallery.dimension:
            raise ValueError(
                f"the bank's vectors have shape {shape}, expected {gallery.dimension} dimensions"
            )
        lengths = torch.linalg.vector_norm(self.vectors.float(), dim=1)
        if not bool(((lengths - 1).abs() <= UNIT_TOLERANCE).all()):  # NaN is not
            raise ValueError("the bank's vectors are not finite or not of unit length")
        for places in (self.firsts, self.claims):
            if places.shape != (rows,) or places.dtype != torch.long:
                raise ValueError(f"the bank has no first place for each of its {rows} queries")
            engine = isinstance(gallery, EngineGallery)  # whose positions are handles, made anew
            if not engine and rows and not bool(((places >= 0) & (places < len(gallery))).all()):
                raise ValueError(f"the bank's first places are not among {len(gallery)} candidates")
        shares = (self.unsure >= 0) & (self.unsure <= 1)
        if self.unsure.shape != (rows,) or not bool(shares.all()):
            raise ValueError("how unsure the bank's queries were is no share of 1 for each")

    def _parts(self) -> tuple[Tensor, ...]:
        return self.vectors, self.firsts, self.claims, self.unsure


def repeated(keys: Tensor) -> Tensor:
    """Which of some queries (B,), by their keys, an earlier one is too."""
    return (keys[:, None] == keys).tril(-1).any(dim=1)


def keys_of(vectors: Tensor) -> Tensor:
    """A hash (n,) of each vector in half precision: equal vectors have equal ones."""
    bits = vectors.detach().to(torch.float16).contiguous().view(torch.int16).long()
    places = torch.arange(1, bits.shape[1] + 1, device=bits.device)
    mixed = (bits + places * MIXER) * MIXER  # wraps around
    mixed = (mixed ^ (mixed >> 29)) * (2 * places + 1)
    return mixed.sum(dim=1)


def _coincidences(positions: Tensor) -> Tensor:
    """Ordered pairs of queries with the same position (n,), each query with itself included."""
    ordered = positions.sort().values
    last, first = (torch.searchsorted(ordered, ordered, right=right) for right in (True, False))
    return (last - first).sum()


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of similarities."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, scores: Tensor) -> Moments:
        """Those of all numbers of a matrix."""
        sums = torch.stack((scores.sum(), torch.linalg.vector_norm(scores)))
        total, length = sums.double().tolist()
        return cls(scores.numel(), total, length**2)

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

    def __add__(self, more: Moments) -> Moments:
        return Moments(
            self.count + more.count, self.total + more.total, self.squares + more.squares
        )

    def __sub__(self, fewer: Moments) -> Moments:
        return Moments(
            self.count - fewer.count, self.total - fewer.total, self.squares - fewer.squares
        )


class Scale(NamedTuple):
    """How similarities become weights."""

    centre: float  # similarity that has weight 1
    spread: float  # one unit of the exponent

    def nearness(self, sums: Tensor) -> Tensor:
        """Sums of weights (N,) as similarities."""
        least = torch.finfo(torch.float32).tiny
        logarithms = sums.float().clamp_(min=least).log_()
        return logarithms.mul_(self.spread).add_(self.centre)

    def weights(self, scores: Tensor) -> Tensor:
        """Weights of similarities, of any shape."""
        steep = (scores - self.centre).mul_(1 / self.spread)
        return steep.clamp_(-STEEPEST, STEEPEST).exp_()

    def weights_of(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Weights (n, N) of the similarities of queries (n, D) to candidates (N, V, D)."""
        unit = 1 / self.spread
        steep = similarity(queries * unit, candidates).sub_(self.centre * unit)
        return steep.clamp_(-STEEPEST, STEEPEST).exp_()


class Leaving(NamedTuple):
    """The oldest rows of a bank, which leave it next."""

    weights: Tensor  # (r, N)
    totals: Tensor  # (r,) of their similarities, as Moments has them
    squares: Tensor  # (r,)

    def split(self, count: int) -> tuple[Leaving, Leaving]:
        """The first rows, and the others."""
        return Leaving(*(part[:count] for part in self)), Leaving(*(part[count:] for part in self))

    @property
    def moments(self) -> Moments:
        """Of all their similarities."""
        total, squares = torch.stack((self.totals.sum(), self.squares.sum())).tolist()
        return Moments(self.weights.numel(), total, squares)


@dataclass(frozen=True)
class HubSums:
    """Sums over a bank for each candidate of a gallery in memory: 16 bytes a candidate.

    A row that enters costs no product: the scores that it is answered by are added. Those that
    leave next are multiplied with the gallery several at a time, and their weights are kept. The
    whole bank is multiplied with the gallery only where the spread has changed.
    """

    gallery: Searchable
    moments: Moments
    scale: Scale
    total: Tensor  # (N,) weights of the bank's queries
    own: Tensor  # (N,) weights of those whose first place it is, before or after correction
    leaving: Leaving | None = None  # the bank's first rows

    @classmethod
    def of(cls, bank: QueryBank, gallery: Searchable, moments: Moments | None = None) -> HubSums:
        """The sums of a whole bank."""
        if moments is None:
            moments = sum((Moments.of(scores) for scores, _ in _scored(bank, gallery)), Moments())
        scale = Scale(moments.mean, moments.spread)
        total = torch.zeros(len(gallery), dtype=torch.float64, device=bank.vectors.device)
        own = total.clone()
        for scores, rows in _scored(bank, gallery):
            weights = scale.weights(scores)
            total += weights.sum(dim=0)
            _add_claims(own, weights, rows)
        return cls(gallery, moments, scale, total, own)

    def with_batch(self, scores: Tensor) -> HubSums:
        """The sums with queries of these similarities (b, N), at the scale of those before."""
        moments = self.moments + Moments.of(scores)
        known = self.moments.count > 0
        scale = self.scale if known else Scale(moments.mean, moments.spread)
        total = self.total.clone()
        for some in torch.split(scores, max(1, CACHED // scores.shape[1])):
            total += scale.weights(some).sum(dim=0)
        return replace(self, moments=moments, scale=scale, total=total)

    def claimed(self, scores: Tensor, rows: QueryBank) -> HubSums:
        """The sums with the first places of rows that were added last, of similarities (b, N)."""
        own = self.own.clone()
        _add_claims(own, scores, rows, of=self.scale.weights)
        return replace(self, own=own)

    def without(self, removed: QueryBank, left: QueryBank) -> HubSums:
        """The sums after rows have left the bank; made anew where the spread has moved."""
        total, own, moments, leaving = self.total, self.own.clone(), self.moments, self.leaving
        done = 0
        while done < len(removed):
            if leaving is None or not len(leaving.weights):
                leaving = self._weighed(removed.taking(slice(done, None)), left)
            gone, leaving = leaving.split(len(removed) - done)
            rows = removed.taking(slice(done, done + len(gone.weights)))
            done += len(rows)
            moments = moments - gone.moments
            total = total - gone.weights.sum(dim=0)
            _add_claims(own, gone.weights, rows, sign=-1)
        if moments.spread != self.scale.spread:
            return HubSums.of(left, self.gallery, moments)
        if len(removed):
            self._sum_anew(total, own, left)
        if leaving is not None and not len(leaving.weights):
            leaving = None  # and its room
        return replace(self, moments=moments, total=total, own=own.clamp_(min=0), leaving=leaving)

    def _weighed(self, removed: QueryBank, left: QueryBank) -> Leaving:
        """The oldest rows of a bank: those that leave it, and where they are few the next ones."""
        ahead = min(MOST_AHEAD, AHEAD // len(self.gallery))
        if len(removed) < ahead:
            removed = removed.joined(left.taking(slice(None, ahead - len(removed))))
        scores, _ = next(_scored(removed, self.gallery))
        totals, squares = scores.sum(dim=1), torch.linalg.vector_norm(scores, dim=1).square()
        return Leaving(self.scale.weights(scores), totals.double(), squares.double())

    def _sum_anew(self, total: Tensor, own: Tensor, bank: QueryBank) -> None:
        """Sums most of which has left, of the bank alone: what is left of them may be rounding."""
        lost = (total < self.total / 2).nonzero()[:, 0]
        if not len(lost):
            return
        queries, every = bank.vectors.float(), self.gallery.vectors
        width = max(1, AT_ONCE // max(1, len(bank) * every.shape[1]))
        for some in torch.split(lost, width):
            scores = similarity(queries, every[some.to(every.device)].to(queries))
            weights = self.scale.weights(scores)
            total[some] = weights.sum(dim=0).to(total)
            own[some] = (weights * _taken(bank, some)).sum(dim=0).to(own)

    @lazy_property
    def of_all(self) -> Tensor:
        """How near the bank's queries are to each candidate (N,)."""
        return self.scale.nearness(self.total)

    @lazy_property
    def others(self) -> Tensor:
        """How near those are (N,) whose first place it is not."""
        return self.scale.nearness(torch.maximum(self.total - self.own, self.total * LEAST))


def _add_claims(
    own: Tensor,
    weights: Tensor,
    rows: QueryBank,
    sign: int = 1,
    of: Callable[[Tensor], Tensor] = lambda weights: weights,
) -> None:
    """Add to sums (N,) the weights (b, N) of rows at their first places, alike ones once."""
    places = torch.stack((rows.firsts, rows.claims), dim=1)
    claimed = of(weights.gather(1, places)).to(own)
    claimed[:, 1] *= rows.firsts != rows.claims
    own.index_add_(0, places.flatten(), claimed.flatten(), alpha=sign)


def _taken(bank: QueryBank, positions: Tensor) -> Tensor:
    """Whether candidates (U,) are a row's first place (n, U), before or after correction."""
    return (bank.firsts[:, None] == positions) | (bank.claims[:, None] == positions)


def _scored(bank: QueryBank, gallery: Searchable) -> Iterator[tuple[Tensor, QueryBank]]:
    """Similarities (b, N) of the bank's queries, a few at a time, and those rows."""
    count = max(1, AT_ONCE // (len(gallery) * gallery.vectors.shape[1]))
    for start in range(0, len(bank), count):
        rows = bank.taking(slice(start, start + count))
        queries = rows.vectors.float()
        yield all_scores(queries, gallery.vectors.to(queries.device)), rows
