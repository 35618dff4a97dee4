"""Hub correction: candidates that are close to all queries of a stream lose score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.galleries import Hits
from queryshift.galleries.exclusions import mask_excluded
from queryshift.galleries.memory.exact_search import grouped_topk, in_memory, left_for_all
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import Ranking
from queryshift.retrieval.uncertainty import BEST, LATEST, chances_of, doubt, query_keys
from queryshift.support.setting_fields import check_values, setting

from .engine_sums import CENTRES, CentreMoments, HitSums
from .query_bank import CACHED, HubSums, QueryBank

HOLDER = "hub bank"  # key of a forward's cache: the bank that holds its queries
LAST = "hub bank's last"  # the same: the bank whose last rows they are
BEHIND = 100.0  # subtracted from candidates that are not corrected
SUMS, MOMENTS = "sums", "moments"  # kept beside a bank, and not saved


@dataclass(frozen=True)
class Hubs:
    """Hub correction of answers: hubs are candidates that are close to all queries of a stream.

    Under a shift, query vectors crowd together, and a few candidates close to the crowd take most
    top-1 results. Each candidate loses score by how close the stream's latest queries are to it,
    the more uncertain the model is. Nothing is trained and nothing needs tuning
    (docs/hub-correction.md).

    Args:
        bank: Number of the stream's latest query vectors to remember, in half precision.
        depth: Number of hits to correct if the gallery is an engine or has more than 262,144
            candidates. In smaller galleries in memory all candidates are corrected.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Frozen(), hubs=qs.Hubs(bank=256))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    bank: int = setting(1024, "ours", "latest query vectors to remember")
    depth: int = setting(100, "ours", "hits to correct on an engine")

    def __post_init__(self) -> None:
        check_values(self, "hubs")
        for one in ("bank", "depth"):
            if getattr(self, one) < 1:
                raise BadInput(
                    f"hubs: {one} is {getattr(self, one)!r}, expected a whole number of at least 1."
                )

    @torch.no_grad()
    def observe(self, forward: Forward, memory: QueryBank) -> QueryBank:
        """Add the queries of a batch that the bank does not hold yet.

        Args:
            forward: The batch, as it is answered.
            memory: The bank so far.

        Returns:
            The bank from now on.
        """
        if forward.vectors.shape[1] != memory.vectors.shape[1]:
            return memory  # TSA's view has other vectors and candidates in every batch
        joined = self.joined(forward, memory)
        if joined is not memory:
            all_new = len(joined) - len(memory) == len(forward) <= self.bank
            memory = scope_of(forward, self.depth).cut(joined, self.bank)
            if all_new:
                forward.cache[LAST] = memory
        forward.cache[HOLDER] = memory
        return memory

    @torch.no_grad()
    def rank(self, forward: Forward, ranking: Ranking, memory: QueryBank) -> Ranking:
        """Correct a ranking by the bank and this batch, whether the bank holds it or not.

        Args:
            forward: The batch, as it is answered.
            ranking: Its order so far.
            memory: The bank, with or without this batch.

        Returns:
            The order after correction.
        """
        return HubRanking(self, forward, ranking, memory)

    def joined(self, forward: Forward, bank: QueryBank) -> QueryBank:
        """The bank together with the queries of a batch, of any size.

        Args:
            forward: The batch, as it is answered.
            bank: The bank, with or without this batch.

        Returns:
            The same bank if it holds all of them.
        """
        holder: QueryBank | None = forward.cache.get(HOLDER)
        if holder is bank:
            return holder
        scope = scope_of(forward, self.depth)
        unknown = bank.lacks(scope.keys)
        marks = unknown.tolist()
        if not any(marks):
            return bank
        return scope.joined(bank, None if all(marks) else unknown)

    def uncertainty(self, forward: Forward, bank: QueryBank) -> Tensor:
        """The uncertainty of the latest queries.

        Args:
            forward: The batch, as it is answered.
            bank: The bank, with or without this batch.

        Returns:
            A number between 0 and 1.
        """
        scope = scope_of(forward, self.depth)
        chances, kept = scope.chances, bank.chances
        if (lacking := LATEST - len(chances)) > 0:
            if forward.cache.get(LAST) is bank and kept.dtype == chances.dtype:
                return doubt(kept[-LATEST:])
            earlier = bank.latest_chances(lacking, scope.keys)
            chances = torch.cat((earlier.to(chances), chances))
        return doubt(chances)

    def strength(self, uncertainty: Tensor, bank: QueryBank) -> Tensor:
        """The uncertainty, reduced if correction crowds the top-1 results.

        Hubs are candidates that many queries find: correcting them spreads the top-1 results over
        more candidates. If it spreads them over fewer, there were no hubs to correct, as in a
        gallery of similar candidates; if over half as many, nothing is corrected.

        Args:
            uncertainty: Of the latest queries.
            bank: The bank, this batch included.

        Returns:
            A number between 0 and 1.
        """
        known = min(1.0, (len(bank) - 1) / (LATEST - 1))
        return uncertainty * known * (2 * bank.spread_kept - 1).clamp(min=0).square()


class HubRanking:
    """Scores minus the closeness of the stream's other queries to each candidate."""

    def __init__(self, hubs: Hubs, forward: Forward, before: Ranking, memory: QueryBank) -> None:
        self._hubs, self._forward, self._before, self._memory = hubs, forward, before, memory
        self._whole = in_memory(forward.gallery)
        self._ordered: tuple[int, Hits] | None = None
        self._scores: Tensor | None = None

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates after correction."""
        if self._ordered is None or self._ordered[0] < count:
            self._ordered = (count, self._best(count) if self._whole else self._reranked(count))
        return self._ordered[1].top(count)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The corrected score of every candidate; on an engine, those beyond `depth` come last."""
        if self._scores is None:
            if self._whole:
                self._scores = torch.cat(list(self._corrected(self._hubs.depth)))
            else:
                hits = self._reranked(1)
                behind = self._before.all_scores() - BEHIND
                self._scores = behind.scatter(1, hits.positions, hits.scores.to(behind))
        return self._scores

    def _bank(self) -> QueryBank:
        """The bank, or an empty one if vectors have another dimension."""
        forward, memory = self._forward, self._memory
        if memory.vectors.shape[1] == forward.vectors.shape[1]:
            return memory
        return QueryBank.empty(forward.vectors.shape[1], forward.vectors.device)

    def _corrected(self, depth: int) -> Iterator[Tensor]:
        """Corrected scores of the whole gallery (b, N), or of `depth` hits, query after query."""
        forward, memory, scope = self._forward, self._bank(), scope_of(self._forward, depth)
        uncertainty = self._hubs.uncertainty(forward, memory)
        if uncertainty.device.type == "cpu" and not uncertainty:  # a GPU would have to wait
            return scope.minus(torch.zeros(max(1, len(scope.positions)), device="cpu"))
        bank = self._hubs.joined(forward, memory)
        strong = self._hubs.strength(uncertainty, bank)
        return scope.minus(strong * scope.nearness(bank).others)

    def _best(self, count: int) -> Hits:
        """The best of all candidates."""
        forward = self._forward
        count = min(count, left_for_all(len(forward.gallery), forward.exclude))
        found = [grouped_topk(scores, count) for scores in self._corrected(self._hubs.depth)]
        best, positions = (torch.cat(parts) for parts in zip(*found, strict=True))
        return Hits(positions, best, forward.at_least(1).candidates)

    def _reranked(self, count: int) -> Hits:
        """The hits of one search after correction."""
        depth = max(count, self._hubs.depth)
        corrected = torch.cat(list(self._corrected(depth)))
        scores, order = corrected.sort(dim=1, descending=True, stable=True)
        hits = self._forward.hits(depth)
        return replace(hits, scores=scores, positions=hits.positions.gather(1, order))


@dataclass(frozen=True)
class Scope:
    """What correction covers for a batch: all candidates, or the hits of one search."""

    forward: Forward
    scores: Tensor  # (B, N) of all candidates, excluded ones too, or (B, K) of hits
    positions: Tensor  # (L,) of the hits' candidates, each once; empty: all candidates
    places: Tensor | None  # (B, K) index of each hit in `positions`; None: all candidates
    nearest: Tensor  # (B,) position of each query's top-1 result
    chances: Tensor  # (B,) see `retrieval/uncertainty.py`

    @property
    def keys(self) -> Tensor:
        """The key (B,) of each query, as in a bank."""
        return query_keys(self.forward)

    def minus(self, values: Tensor) -> Iterator[Tensor]:
        """Yield scores minus numbers of candidates (L,), excluded ones -inf, some rows at a time.

        A few rows fit the processor's cache.
        """
        values = (values if self.places is None else values[self.places]).to(self.scores)
        every, at_once = values.expand_as(self.scores), max(1, CACHED // self.scores.shape[1])
        for start in range(0, len(every), at_once):
            rows = slice(start, start + at_once)
            yield self._allowed(self.scores[rows] - every[rows], start)

    def top_candidates(self, values: Tensor) -> Tensor:
        """The candidate (B,) of the best score minus numbers of candidates (L,)."""
        best = torch.cat([scores.argmax(dim=1) for scores in self.minus(values)])
        if self.places is None:
            return best
        return self.positions[self.places.gather(1, best[:, None])[:, 0]]

    def _allowed(self, scores: Tensor, first: int) -> Tensor:
        """Scores of the queries from `first` on, with -inf for excluded candidates."""
        if self.places is not None:  # a search has left them out
            return scores
        return mask_excluded(scores, self.forward.exclude, first_query=first)

    def sums(self, bank: QueryBank) -> HubSums:
        """The bank's sums over a gallery in memory."""
        kept: HubSums | None = vars(bank).get(SUMS)
        if kept is None or kept.gallery is not self.forward.gallery:
            kept = vars(bank)[SUMS] = HubSums.of(bank, self.forward.gallery)
        return kept

    def moments(self, bank: QueryBank) -> CentreMoments:
        """The bank's moments over a gallery whose hits are corrected."""
        kept: CentreMoments | None = vars(bank).get(MOMENTS)
        if kept is None or kept.centres is not self.forward.gallery.centroids(CENTRES):
            kept = vars(bank)[MOMENTS] = CentreMoments.of(bank, self.forward.gallery)
        return kept

    def nearness(self, bank: QueryBank) -> HubSums | HitSums:
        """How close the bank is to each candidate (L,)."""
        if self.places is None:
            return self.sums(bank)
        kept: HitSums | None = vars(self).get(SUMS)
        if kept is None or kept.bank is not bank:
            candidates = self.forward.hits(1).candidates
            vectors = candidates.vectors_at(self.positions[None])[0].to(self.scores)
            kept = HitSums(bank, self.positions, vectors, self.moments(bank).scale)
            vars(self)[SUMS] = kept
        return kept

    def joined(self, bank: QueryBank, unknown: Tensor | None) -> QueryBank:
        """The bank, then the queries of this batch that `unknown` (B,) marks, or all if None."""
        vectors = self.forward.vectors.detach().to(torch.float16)
        rows = QueryBank(vectors, self.nearest, self.nearest, self.chances)
        vars(rows)["keys"] = self.keys
        scores = self.scores
        if unknown is not None:
            rows, scores = rows.taking(unknown), scores[unknown]
        joined = bank.joined(rows)
        if self.places is None:
            vars(joined)[SUMS] = self.sums(bank).with_batch(scores)
        else:
            vars(joined)[MOMENTS] = self.moments(bank).plus(rows)
        assigned = self.top_candidates(self.nearness(joined).of_all)
        if unknown is not None:
            assigned = assigned[unknown]
        joined.assigned[len(bank) :] = assigned  # a copy of the rows': nobody has it yet
        if self.places is None:
            vars(joined)[SUMS] = self.sums(joined).with_own(scores, rows.nearest, assigned)
        if len(rows) == 1:
            joined.keep_pairs(bank, -1)
        return joined

    def cut(self, bank: QueryBank, size: int) -> QueryBank:
        """The latest rows of a bank."""
        count = max(0, len(bank) - size)
        left = bank.taking(slice(count, None)) if count else bank
        if self.places is None:
            vars(left)[SUMS] = self.sums(bank).without(count, bank, left)
        else:
            removed, kept = bank.taking(slice(None, count)), self.nearness(bank)
            after = vars(left)[MOMENTS] = self.moments(bank).minus(removed)
            if isinstance(kept, HitSums):
                vars(self)[SUMS] = kept.left(count, left, after.scale)
        if count == 1:
            left.keep_pairs(bank, 0)
        return left


def scope_of(forward: Forward, depth: int) -> Scope:
    """What correction covers for a batch; computed once per forward."""
    key = ("hub scope", depth)
    if key not in forward.cache:
        whole = in_memory(forward.gallery)
        forward.cache[key] = _whole(forward) if whole else _hits(forward, depth)
    kept: Scope = forward.cache[key]
    return kept


def _whole(forward: Forward) -> Scope:
    nearest = forward.at_least(BEST).positions[:, 0]
    return Scope(forward, forward.every_score, nearest[:0], None, nearest, chances_of(forward))


def _hits(forward: Forward, depth: int) -> Scope:
    found = forward.hits(max(depth, BEST))
    hits, best = found.top(depth), found.top(BEST)
    positions, places = torch.unique(hits.positions, return_inverse=True)
    nearest, chances = best.positions[:, 0], chances_of(forward)
    return Scope(forward, hits.scores, positions, places, nearest, chances)
