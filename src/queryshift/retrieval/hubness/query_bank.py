"""The latest queries of a stream, and how near they are to each candidate: running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from queryshift.galleries import EngineGallery, Searchable
from queryshift.galleries.memory.exact_search import all_scores, similarity
from queryshift.retrieval.forward import UNIT_TOLERANCE
from queryshift.retrieval.uncertainty import keys_of, repeated
from queryshift.support.deprecation import stored_as
from queryshift.support.threads import lazy_property

WEIGHTS = "weights"  # kept beside sums while they are needed
AT_ONCE = 2**24  # scores held at once: 64 MB
CACHED = 2**20  # scores turned into weights at once: they fit the processor's cache
AHEAD = 2**22  # weights kept of rows that leave next: 16 MB
MOST_AHEAD = 64  # rows kept of those
SMALLEST_SPREAD = 1e-4
STEPS = 8  # roundings of the spread per doubling
STEEPEST = 80.0  # exponent; float32 goes to 88
LEAST = 1e-5  # least share of a candidate's sum after its own queries are taken off


@dataclass(frozen=True)
class QueryBank:
    """The latest query vectors of a stream. A value, once `Scope.joined` has filled it."""

    vectors: Tensor  # (n, D) in half precision, the latest last
    nearest: Tensor = stored_as("firsts")  # (n,) position of the top-1 result before correction
    assigned: Tensor = stored_as("claims")  # (n,) the same after correction, when the query came
    chances: Tensor = stored_as("unsure")  # (n,) see `retrieval/uncertainty.py`

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
        """Which queries (B,), by their keys, are neither in the bank nor repeated in the batch."""
        new = (keys[:, None] != self.keys).all(dim=1)
        return new if len(keys) == 1 else new & ~repeated(keys)

    def latest_chances(self, count: int, keys: Tensor) -> Tensor:
        """The chances of the latest `count` rows that are not among some queries (B,), by key."""
        latest = slice(-count - len(keys), None)  # no key is in a bank twice
        others = (keys[:, None] != self.keys[latest]).all(dim=0)
        return self.chances[latest][others][-count:]

    def joined(self, later: QueryBank) -> QueryBank:
        """This bank's rows, then those of a later one."""
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
        """A hash (n,) of each vector; not saved."""
        return keys_of(self.vectors)

    @lazy_property
    def spread_kept(self) -> Tensor:
        """How many candidates its top-1 results are spread over after correction, of those before.

        Candidates count by the inverse Simpson index: the number over which evenly spread results
        would coincide as often. Between 0 and 1; no part of what is saved.
        """
        if self.vectors.is_cpu:
            before, after = torch.tensor(self.pairs, device="cpu").unbind()
        else:
            before, after = coincidences(torch.stack((self.nearest, self.assigned))).unbind()
        return (before / after).clamp(max=1)

    @lazy_property
    def pairs(self) -> list[int]:
        """The coincidences of top-1 results before and after correction; not saved."""
        pairs: list[int] = coincidences(torch.stack((self.nearest, self.assigned))).tolist()
        return pairs

    def keep_pairs(self, other: QueryBank, row: int) -> None:
        """Count pairs from another bank's, if it has counted: just this row is in one only."""
        if "pairs" not in vars(other):
            return
        sign, whole = (1, self) if len(self) > len(other) else (-1, other)
        vars(self)["pairs"] = [
            pairs + sign * (2 * int(np.count_nonzero(places == places[row])) - 1)
            for pairs, places in zip(
                other.pairs, (whole.nearest.numpy(), whole.assigned.numpy()), strict=True
            )
        ]

    def moved(self, gallery: Searchable) -> QueryBank:
        """The same queries with their top-1 results in another gallery."""
        if len(self) == 0:
            return self
        nearest = gallery.search(self.vectors.float(), 1).positions[:, 0]
        return replace(self, nearest=nearest, assigned=nearest)

    def check(self, gallery: Searchable) -> None:
        """Refuse, with a ValueError, a bank from a file that does not fit the gallery.

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
        for places in (self.nearest, self.assigned):
            if places.shape != (rows,) or places.dtype != torch.long:
                raise ValueError(f"the bank lacks a top-1 result for each of its {rows} queries")
            engine = isinstance(gallery, EngineGallery)  # its positions are handles of this run
            if not engine and rows and not bool(((places >= 0) & (places < len(gallery))).all()):
                raise ValueError(
                    f"the bank's top-1 results are not among {len(gallery)} candidates"
                )
        probable = (self.chances >= 0) & (self.chances <= 1)
        if self.chances.shape != (rows,) or not bool(probable.all()):
            raise ValueError("the chances of the bank's queries are not between 0 and 1")

    def _parts(self) -> tuple[Tensor, ...]:
        return self.vectors, self.nearest, self.assigned, self.chances


def coincidences(positions: Tensor) -> Tensor:
    """Ordered pairs of equal numbers in each row (r, n), each with itself included."""
    ordered, count = positions.sort(dim=1).values, positions.shape[1]
    changed = ordered[:, 1:] != ordered[:, :-1]
    places = torch.arange(count, device=positions.device)[1:]
    first = (changed * places).cummax(dim=1).values  # of each number's equals; that of 0 is 0
    return count**2 - 2 * first.sum(dim=1)


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of similarities."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, scores: Tensor) -> Moments:
        """The moments of all numbers of a matrix."""
        total, squares = _row_sums(scores).sum(dim=1).tolist()
        return cls(scores.numel(), total, squares)

    @property
    def mean(self) -> float:
        """The mean; 0 if there are none."""
        return self.total / max(1, self.count)

    @property
    def spread(self) -> float:
        """The standard deviation, rounded to an eighth of a doubling.

        While it stays the same, the next batch can be added to the sums so far.
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


def _row_sums(scores: Tensor) -> Tensor:
    """Sums and sums of squares (2, b) of rows (b, N); of all at once they would be inexact."""
    squares = torch.linalg.vector_norm(scores, dim=1).square()
    return torch.stack((scores.sum(dim=1), squares)).double()


class Scale(NamedTuple):
    """How similarities become weights."""

    centre: float  # similarity with weight 1
    spread: float  # one unit of the exponent

    def nearness(self, sums: Tensor) -> Tensor:
        """Sums of weights (N,) as similarities."""
        least = torch.finfo(torch.float32).tiny
        logarithms = sums.float().clamp_(min=least).log_()
        return logarithms.mul_(self.spread).add_(self.centre)

    def weights(self, scores: Tensor, out: Tensor | None = None) -> Tensor:
        """Weights of similarities of any shape; `out` may be the similarities themselves."""
        steep = torch.sub(scores, self.centre, out=out).mul_(1 / self.spread)
        return steep.clamp_(-STEEPEST, STEEPEST).exp_()

    def weights_of(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Weights (n, N) of the similarities of queries (n, D) to candidates (N, V, D)."""
        unit = 1 / self.spread
        steep = similarity(queries * unit, candidates).sub_(self.centre * unit)
        return steep.clamp_(-STEEPEST, STEEPEST).exp_()


class Leaving(NamedTuple):
    """The oldest rows of a bank, which leave it next."""

    weights: Tensor  # (r, N)
    totals: list[float]  # (r,) sums of their similarities, for `Moments`
    squares: list[float]  # (r,) the same of their squares

    def split(self, count: int) -> tuple[Leaving, Leaving]:
        """The first rows, and the others."""
        first, others = slice(None, count), slice(count, None)
        return self._taking(first), self._taking(others)

    @property
    def moments(self) -> Moments:
        """The moments of all their similarities."""
        return Moments(self.weights.numel(), _total(self.totals), _total(self.squares))

    def _taking(self, rows: slice) -> Leaving:
        return Leaving(self.weights[rows], self.totals[rows], self.squares[rows])


def _total(numbers: list[float]) -> float:
    """The sum, added up as torch does."""
    if len(numbers) == 1:
        return numbers[0]
    return float(torch.tensor(numbers, dtype=torch.float64, device="cpu").sum())


@dataclass(frozen=True)
class HubSums:
    """Running sums over a bank for each candidate in memory.

    A query that enters costs no product with the gallery: the scores of its answer are added. The
    queries that leave next are multiplied with the gallery several at a time, and their weights
    are kept (up to 16 MiB). Only if the spread changes is the whole bank multiplied again.
    """

    gallery: Searchable
    moments: Moments
    scale: Scale
    total: Tensor  # (N,) weights of the bank's queries
    own: Tensor  # (N,) weights of queries whose top-1 result it is, before or after correction
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
            weights = scale.weights(scores, out=scores)
            total += weights.sum(dim=0)
            _add_own(own, weights, rows.nearest, rows.assigned)
        return cls(gallery, moments, scale, total, own)

    def with_batch(self, scores: Tensor) -> HubSums:
        """Add queries with these similarities (b, N), at the present scale."""
        moments = self.moments + Moments.of(scores)
        known = self.moments.count > 0
        scale = self.scale if known else Scale(moments.mean, moments.spread)
        total, at_once = self.total, max(1, CACHED // scores.shape[1])
        for start in range(0, len(scores), at_once):
            weights = scale.weights(scores[start : start + at_once])
            total = total + _added_up(weights)
        after = replace(self, moments=moments, scale=scale, total=total)
        if len(scores) == 1:
            vars(after)[WEIGHTS] = weights
        return after

    def with_own(self, scores: Tensor, nearest: Tensor, assigned: Tensor) -> HubSums:
        """Add the top-1 results (b,) of the latest rows, which have similarities (b, N)."""
        own, weights = self.own.clone(), vars(self).get(WEIGHTS)
        if weights is None:
            _add_own(own, scores, nearest, assigned, of=self.scale.weights)
        else:
            _add_own(own, weights, nearest, assigned)
        return replace(self, own=own)

    def without(self, count: int, bank: QueryBank, left: QueryBank) -> HubSums:
        """The sums without a bank's oldest rows; computed again if the spread has changed."""
        total, own, moments, leaving = self.total, self.own.clone(), self.moments, self.leaving
        done = 0
        while done < count:
            if leaving is None or not len(leaving.weights):
                leaving = self._weighed(bank, done, count)
            gone, leaving = leaving.split(count - done)
            rows = slice(done, done + len(gone.weights))
            done = rows.stop
            moments = moments - gone.moments
            total = total - _added_up(gone.weights)
            _add_own(own, gone.weights, bank.nearest[rows], bank.assigned[rows], sign=-1)
        if moments.spread != self.scale.spread:
            return HubSums.of(left, self.gallery, moments)
        if count:
            self._sum_again(total, own, left)
        if leaving is not None and not len(leaving.weights):
            leaving = None  # frees its memory
        return replace(self, moments=moments, total=total, own=own.clamp_(min=0), leaving=leaving)

    def _weighed(self, bank: QueryBank, first: int, last: int) -> Leaving:
        """Weigh the rows that leave a bank and, if they are few, those that leave next."""
        ahead = min(MOST_AHEAD, AHEAD // len(self.gallery))
        rows = bank.taking(slice(first, max(last, first + ahead)))
        scores, _ = next(_scored(rows, self.gallery))
        sums = _row_sums(scores).tolist()
        return Leaving(self.scale.weights(scores, out=scores), *sums)

    def _sum_again(self, total: Tensor, own: Tensor, bank: QueryBank) -> None:
        """Compute sums again that lost more than half: the rest may be rounding error."""
        lost = (total < self.total / 2).nonzero()[:, 0]
        if not len(lost):
            return
        queries, every = bank.vectors.float(), self.gallery.vectors
        width = max(1, AT_ONCE // max(1, len(bank) * every.shape[1]))
        for some in torch.split(lost, width):
            scores = similarity(queries, every.index_select(0, some.to(every.device)).to(queries))
            weights = self.scale.weights(scores, out=scores)
            total.index_copy_(0, some, weights.sum(dim=0).to(total))
            own.index_copy_(0, some, (weights * _taken(bank, some)).sum(dim=0).to(own))

    @lazy_property
    def of_all(self) -> Tensor:
        """How close the bank's queries are to each candidate (N,)."""
        return self.scale.nearness(self.total)

    @lazy_property
    def others(self) -> Tensor:
        """The same without queries whose top-1 result it is."""
        return self.scale.nearness(torch.maximum(self.total - self.own, self.total * LEAST))


def _added_up(weights: Tensor) -> Tensor:
    """The sum (N,) of rows (b, N)."""
    return weights[0] if len(weights) == 1 else weights.sum(dim=0)


def _add_own(
    own: Tensor,
    weights: Tensor,
    nearest: Tensor,
    assigned: Tensor,
    sign: int = 1,
    of: Callable[[Tensor], Tensor] = lambda weights: weights,
) -> None:
    """Add to sums (N,) the weights (b, N) of rows at their top-1 results (b,), equal ones once."""
    if own.is_cpu and len(weights) == 1:  # two numbers: without tensors of them
        row, sums = of(weights).numpy()[0], own.numpy()
        for place in {int(nearest), int(assigned)}:
            sums[place] += sign * float(row[place])
        return
    places = torch.stack((nearest, assigned), dim=1)
    added = of(weights.gather(1, places)).to(own)
    added[:, 1].mul_(nearest != assigned)
    own.index_add_(0, places.flatten(), added.flatten(), alpha=sign)


def _taken(bank: QueryBank, positions: Tensor) -> Tensor:
    """Whether candidates (U,) are a row's top-1 result (n, U), before or after correction."""
    return (bank.nearest[:, None] == positions) | (bank.assigned[:, None] == positions)


def _scored(bank: QueryBank, gallery: Searchable) -> Iterator[tuple[Tensor, QueryBank]]:
    """Yield similarities (b, N) of the bank's queries, a few at a time, with their rows."""
    count = max(1, AT_ONCE // (len(gallery) * gallery.vectors.shape[1]))
    for start in range(0, len(bank), count):
        rows = bank.taking(slice(start, start + count))
        queries = rows.vectors.float()
        yield all_scores(queries, gallery.vectors.to(queries.device)), rows
