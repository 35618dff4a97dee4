"""Hub correction: candidates that are near to every query are set back by how near they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.galleries import Hits, Searchable
from queryshift.galleries.exclusions import mask_excluded
from queryshift.galleries.memory.exact_search import grouped_topk, left_for_all
from queryshift.retrieval.forward import Forward, in_memory
from queryshift.retrieval.reranking import Ranking
from queryshift.retrieval.uncertainty import BEST, LATEST, chances_of, doubt
from queryshift.support.setting_fields import check_values, setting
from queryshift.support.threads import lazy_property

from .engine_sums import CENTRES, CentreMoments, HitSums
from .query_bank import HubSums, QueryBank, keys_of

HOLDER = "hub bank"  # that has the queries of a forward, kept with it
BEHIND = 100.0  # what candidates beyond the corrected ones are set back by
SUMS, MOMENTS = "sums", "moments"  # of a bank, kept beside it: no part of what is saved


@dataclass(frozen=True)
class Hubs:
    """Corrects answers for hubs: candidates that are near to every query of the stream.

    Under a shift queries crowd together, and a few candidates near the crowd take most first
    places. Each candidate is set back by how near the stream's latest queries are to it, the more
    the less its queries' best scores stand out. Nothing is trained; there is nothing to tune
    (docs/hub-correction.md).

    Args:
        bank: How many of the stream's latest query vectors are remembered, in half precision.
        depth: Hits that are corrected where the gallery is an engine, or has more than 262,144
            candidates. Below that all candidates of a gallery in memory are corrected.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.Frozen(), hubs=qs.Hubs(bank=256))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    bank: int = setting(1024, "ours", "latest query vectors that are remembered")
    depth: int = setting(100, "ours", "hits that are corrected on an engine")

    name = "hubs"
    learns = True

    def __post_init__(self) -> None:
        check_values(self, "hubs")
        for one in ("bank", "depth"):
            if getattr(self, one) < 1:
                raise BadInput(
                    f"hubs: {one} is {getattr(self, one)!r}, expected a whole number of at least 1."
                )

    def start(self, gallery: Searchable, device: torch.device) -> QueryBank:
        """An empty bank.

        Args:
            gallery: The session's gallery.
            device: The device of the queries.

        Returns:
            The memory before the first batch.
        """
        return QueryBank.empty(gallery.dimension, device)

    def moved(self, memory: QueryBank, gallery: Searchable) -> QueryBank:
        """The bank before another gallery: query vectors outlive it.

        Args:
            memory: The bank so far.
            gallery: The new gallery.

        Returns:
            The same queries with their first places there.
        """
        return memory.moved(gallery)

    def check_memory(self, memory: Any, gallery: Searchable) -> None:
        """Refuse, with a ValueError, a bank from a file that is none or does not fit.

        Args:
            memory: The memory as it was read.
            gallery: The session's gallery.
        """
        if not isinstance(memory, QueryBank):
            raise ValueError("the memory of hubs is no bank of queries")
        memory.check(gallery)

    @torch.no_grad()
    def observe(self, forward: Forward, memory: QueryBank) -> QueryBank:
        """The bank with the queries of a batch; those that it has already are not added again.

        Args:
            forward: The batch, as it is answered.
            memory: The bank so far.

        Returns:
            The bank from now on.
        """
        if forward.vectors.shape[1] != memory.vectors.shape[1]:
            return memory  # TSA's view has vectors and candidates of its own in every batch
        joined = self.joined(forward, memory)
        if joined is not memory:
            memory = reach_of(forward, self.depth).cut(joined, self.bank)
        forward.cache[HOLDER] = memory
        return memory

    @torch.no_grad()
    def rank(self, forward: Forward, ranking: Ranking, memory: QueryBank) -> Ranking:
        """The corrected ranking: by the bank and this batch, whether it is remembered or not.

        Args:
            forward: The batch, as it is answered.
            ranking: Its order so far.
            memory: The bank, with or without this batch.

        Returns:
            The order after correction.
        """
        return HubRanking(self, forward, ranking, memory)

    def joined(self, forward: Forward, bank: QueryBank) -> QueryBank:
        """The bank with the queries of a batch, however many there are.

        Args:
            forward: The batch, as it is answered.
            bank: The bank, with or without this batch.

        Returns:
            The same bank, where it has all of them.
        """
        holder: QueryBank | None = forward.cache.get(HOLDER)
        if holder is bank:
            return holder
        reach = reach_of(forward, self.depth)
        unknown = bank.lacks(reach.keys)
        count = int(unknown.sum())
        if count == 0:
            return bank
        return reach.joined(bank, None if count == len(forward) else unknown)

    def strength(self, forward: Forward, bank: QueryBank) -> Tensor:
        """The doubt of the latest queries, less where correction crowds their top-1 results.

        Hubs are candidates that many queries find: correcting them spreads the top-1 results over
        more candidates. Where it spreads them over fewer, there were no hubs to correct, as in a
        gallery of candidates that are all alike. Over half as many, nothing is corrected.

        Args:
            forward: The batch, as it is answered.
            bank: The bank, this batch included.

        Returns:
            A number between 0 and 1.
        """
        reach = reach_of(forward, self.depth)
        unsure = reach.unsure
        if (lacking := LATEST - len(unsure)) > 0:
            earlier = bank.unsure[bank.others(reach.keys)][-lacking:]
            unsure = torch.cat((earlier.to(unsure), unsure))
        known = min(1.0, (len(bank) - 1) / (LATEST - 1))
        return doubt(unsure) * known * (2 * bank.spread_kept - 1).clamp(min=0).square()


class HubRanking:
    """Scores less what the stream's other queries have in common with each candidate."""

    def __init__(self, hubs: Hubs, forward: Forward, before: Ranking, memory: QueryBank) -> None:
        self._hubs, self._forward, self._before, self._memory = hubs, forward, before, memory
        self._whole = in_memory(forward.gallery)
        self._ordered: tuple[int, Hits] | None = None
        self._scores: Tensor | None = None

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates after correction."""
        if self._ordered is None or self._ordered[0] < count:
            self._ordered = (count, self._best(count) if self._whole else self._ranked_anew(count))
        return self._ordered[1].top(count)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The corrected score of every candidate; on an engine, those beyond `depth` are behind."""
        if self._scores is None:
            if self._whole:
                self._scores = self._corrected(self._hubs.depth)
            else:
                hits = self._ranked_anew(1)
                behind = self._before.all_scores() - BEHIND
                self._scores = behind.scatter(1, hits.positions, hits.scores.to(behind))
        return self._scores

    def _bank(self) -> QueryBank:
        """The bank with this batch; before a gallery of other vectors, this batch alone."""
        forward, memory = self._forward, self._memory
        if memory.vectors.shape[1] != forward.vectors.shape[1]:
            memory = QueryBank.empty(forward.vectors.shape[1], forward.vectors.device)
        return self._hubs.joined(forward, memory)

    def _corrected(self, depth: int) -> Tensor:
        """Corrected scores of the whole gallery (B, N), or of `depth` hits."""
        forward, bank = self._forward, self._bank()
        reach, strong = reach_of(forward, depth), self._hubs.strength(forward, bank)
        return reach.allowed(reach.scores - reach.column(strong * reach.nearness(bank).others))

    def _best(self, count: int) -> Hits:
        scores, exclude = self.all_scores(), self._forward.exclude
        best, positions = grouped_topk(scores, min(count, left_for_all(scores.shape[1], exclude)))
        return Hits(positions, best, self._forward.hits(1).candidates)

    def _ranked_anew(self, count: int) -> Hits:
        """The hits of one search, ranked anew."""
        depth = max(count, self._hubs.depth)
        scores, order = self._corrected(depth).sort(dim=1, descending=True, stable=True)
        hits = self._forward.hits(depth)
        return replace(hits, scores=scores, positions=hits.positions.gather(1, order))


@dataclass(frozen=True)
class Reach:
    """A batch's scores before correction, and the candidates that they are of."""

    forward: Forward
    scores: Tensor  # (B, N) of the whole gallery, excluded candidates too, or (B, K) of hits
    positions: Tensor  # (L,) the candidates, each once
    places: Tensor | None  # (B, K) where each hit stands among them; None: columns are candidates
    firsts: Tensor  # (B,) each query's first place
    unsure: Tensor  # (B,) the chance that its best scores stand out as far by accident

    @lazy_property
    def keys(self) -> Tensor:
        """The key (B,) of each query, as a bank has them."""
        return keys_of(self.forward.vectors)

    def column(self, values: Tensor) -> Tensor:
        """A number for each candidate (L,) as one for each score: (N,) or (B, K)."""
        return (values if self.places is None else values[self.places]).to(self.scores)

    def allowed(self, scores: Tensor) -> Tensor:
        """Scores (B, N) or (B, K) with -inf for excluded candidates."""
        exclude = self.forward.exclude
        if exclude is None or self.places is not None:  # a search leaves them out itself
            return scores
        return mask_excluded(scores, exclude)

    def first_places(self, scores: Tensor) -> Tensor:
        """The candidate (B,) of the best of these scores."""
        best = self.allowed(scores).argmax(dim=1)
        if self.places is None:
            return best
        return self.positions[self.places.gather(1, best[:, None])[:, 0]]

    def sums(self, bank: QueryBank) -> HubSums:
        """The bank's sums over a gallery in memory."""
        kept: HubSums | None = vars(bank).get(SUMS)
        if kept is None or kept.gallery is not self.forward.gallery:
            kept = vars(bank)[SUMS] = HubSums.of(bank, self.forward.gallery)
        return kept

    def moments(self, bank: QueryBank) -> CentreMoments:
        """The bank's moments before a gallery whose hits are corrected."""
        kept: CentreMoments | None = vars(bank).get(MOMENTS)
        if kept is None or kept.centres is not self.forward.gallery.centroids(CENTRES):
            kept = vars(bank)[MOMENTS] = CentreMoments.of(bank, self.forward.gallery)
        return kept

    def nearness(self, bank: QueryBank) -> HubSums | HitSums:
        """How near the bank is to each candidate (L,)."""
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
        """The bank and, behind its rows, those of this batch that `unknown` (B,) says: None, all"""
        vectors = self.forward.vectors.detach().to(torch.float16)
        rows = QueryBank(vectors, self.firsts, self.firsts.clone(), self.unsure)
        vars(rows)["keys"] = self.keys
        scores = self.scores
        if unknown is not None:
            rows, scores = rows.taking(unknown), scores[unknown]
        joined = bank.joined(rows)
        if self.places is None:
            vars(joined)[SUMS] = self.sums(bank).with_batch(scores)
        else:
            vars(joined)[MOMENTS] = self.moments(bank).plus(rows)
        claims = self.first_places(self.scores - self.column(self.nearness(joined).of_all))
        rows.claims.copy_(claims if unknown is None else claims[unknown])  # both are new
        joined.claims[len(bank) :] = rows.claims
        if self.places is None:
            vars(joined)[SUMS] = self.sums(joined).claimed(scores, rows)
        return joined

    def cut(self, bank: QueryBank, size: int) -> QueryBank:
        """The latest rows of a bank."""
        removed, left = bank.split(size)
        if self.places is None:
            vars(left)[SUMS] = self.sums(bank).without(removed, left)
        else:
            after = vars(left)[MOMENTS] = self.moments(bank).minus(removed)
            kept = self.nearness(bank)
            if isinstance(kept, HitSums):
                vars(self)[SUMS] = kept.left(len(removed), left, after.scale)
        return left


def reach_of(forward: Forward, depth: int) -> Reach:
    """What correction reaches of a batch's gallery; computed once per forward."""
    key = ("hub reach", depth)
    if key not in forward.cache:
        whole = in_memory(forward.gallery)
        forward.cache[key] = _whole(forward) if whole else _hits(forward, depth)
    kept: Reach = forward.cache[key]
    return kept


def _whole(forward: Forward) -> Reach:
    scores = forward.every_score
    best = forward.hits(BEST)
    every = torch.arange(scores.shape[1], device=scores.device)
    return Reach(forward, scores, every, None, best.positions[:, 0], chances_of(forward))


def _hits(forward: Forward, depth: int) -> Reach:
    found = forward.hits(max(depth, BEST))
    hits, best = found.top(depth), found.top(BEST)
    positions, places = torch.unique(hits.positions, return_inverse=True)
    firsts, unsure = best.positions[:, 0], chances_of(forward)
    return Reach(forward, hits.scores, positions, places, firsts, unsure)
