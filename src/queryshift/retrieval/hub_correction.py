"""Hub correction: candidates that are near to every query are set back by how near they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.galleries import Hits, Searchable
from queryshift.support.setting_fields import check_values, setting

from .forward import Forward
from .hub_sums import HubSums, nearness_of, spread_over
from .listed import in_memory, listed
from .popularity import popularity
from .query_bank import QueryBank
from .reranking import Ranking

RECENT = 32  # queries, at least, that the strength is the mean over
LISTED = 10  # hits of a query, among which its first place after correction is looked for
BEHIND = 100.0  # what candidates beyond the corrected ones are set back by
SCORES, SUMS = "scores for hub correction", "sums"  # keys of what is kept


@dataclass(frozen=True)
class Hubs:
    """Corrects answers for hubs: candidates that are near to every query of the stream.

    Under a shift queries crowd together, and a few candidates near the crowd take most first
    places. Each candidate is set back by how near the stream's latest queries are to it, the more
    the less sure the batch is of its first places. Nothing is trained; there is nothing to tune
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
    depth: int = setting(1000, "ours", "hits that are corrected on an engine")

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
        return self._with_batch(forward, memory)

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

    def _with_batch(self, forward: Forward, bank: QueryBank) -> QueryBank:
        """The bank with the rows of a batch that it lacks."""
        sums = self._sums(forward, bank)
        vectors = forward.vectors.detach().to(torch.float16)
        unknown = bank.unknown(vectors)
        if not bool(unknown.any()):
            return bank
        firsts = forward.hits(1).positions[:, 0]
        blank = torch.zeros(len(vectors), device=vectors.device)
        parts = (vectors, firsts, firsts, blank)
        added = QueryBank(*(part[unknown] for part in parts))
        removed, after = bank.joined(added).split(self.bank)
        if sums is not None:
            vars(after)[SUMS] = sums.changed(added, removed, after)
        unsure = _unsure(self._own_scores(forward), self._spread(forward, after))[unknown]
        kept = slice(-len(after), None)  # of this bank's own rows, made just now
        after.unsure[-len(unsure) :] = unsure[kept]
        return self._with_claims(forward, after, unknown)

    def _with_claims(self, forward: Forward, bank: QueryBank, added: Tensor) -> QueryBank:
        """The bank with the corrected first places of rows that were just added."""
        known = listed(forward.detached(), LISTED)
        sums = self._sums(forward, bank)
        if sums is None:
            vectors = forward.hits(1).candidates.vectors_at(known.positions[None])[0]
            spread = self._spread(forward, bank)
            nearness = nearness_of(bank, known.positions, vectors.to(known.scores), spread).of_all
        else:
            nearness = sums.nearness_of_all[known.positions]
        corrected = known.scores - self.strength(forward, bank) * nearness.to(known.scores)
        claims = known.positions[corrected.argmax(dim=1)][added][-len(bank) :]
        bank.claims[-len(claims) :] = claims
        if sums is not None:
            rows = slice(-len(claims), None)
            vars(bank)[SUMS] = sums.claimed(bank.vectors[rows], bank.firsts[rows], claims)
        return bank

    def _sums(self, forward: Forward, bank: QueryBank) -> HubSums | None:
        """The bank's sums over this gallery, kept beside it: no part of what is saved."""
        if not in_memory(forward.gallery):
            return None
        kept: HubSums | None = vars(bank).get(SUMS)
        if kept is None or kept.gallery is not forward.gallery:
            kept = vars(bank)[SUMS] = HubSums.of(bank, forward.gallery)
        return kept

    def _spread(self, forward: Forward, bank: QueryBank) -> float:
        """The standard deviation of the bank's similarities to the candidates."""
        sums = self._sums(forward, bank)
        return spread_over(bank, forward.gallery) if sums is None else sums.spread

    def _own_scores(self, forward: Forward) -> Tensor:
        """The batch's scores: of all candidates (B, N), or of the hits that are corrected."""
        if not in_memory(forward.gallery):
            return forward.hits(self.depth).scores
        if SCORES not in forward.cache:
            forward.cache[SCORES] = forward.all_scores()
        scores: Tensor = forward.cache[SCORES]
        return scores

    def strength(self, forward: Forward, bank: QueryBank) -> Tensor:
        """How unsure the batch is; of a few queries, together with the latest before them.

        Args:
            forward: The batch, as it is answered.
            bank: The bank, this batch included.

        Returns:
            A number between 0 and 1.
        """
        unsure = _unsure(self._own_scores(forward), self._spread(forward, bank))
        if (lacking := RECENT - len(unsure)) > 0:
            earlier = bank.unsure[bank.others(forward.vectors)][-lacking:]
            unsure = torch.cat((earlier.to(unsure), unsure))
        return unsure.mean()


class HubRanking:
    """Scores less what the bank's other queries have in common with each candidate."""

    def __init__(self, hubs: Hubs, forward: Forward, before: Ranking, memory: QueryBank) -> None:
        self._hubs, self._forward, self._before, self._memory = hubs, forward, before, memory
        self._ordered: tuple[int, Hits] | None = None
        self._scores: Tensor | None = None

    @torch.no_grad()
    def hits(self, count: int) -> Hits:
        """The best `count` candidates after correction."""
        if self._ordered is None or self._ordered[0] < count:
            whole = in_memory(self._forward.gallery)
            self._ordered = (count, self._best(count) if whole else self._corrected_hits(count))
        return self._ordered[1].top(count)

    @torch.no_grad()
    def all_scores(self) -> Tensor:
        """The corrected score of every candidate; on an engine, those beyond `depth` are behind."""
        if self._scores is None:
            if in_memory(self._forward.gallery):
                self._scores = self._corrected_scores()
            else:
                hits = self._corrected_hits(1)
                behind = self._before.all_scores() - BEHIND
                self._scores = behind.scatter(1, hits.positions, hits.scores.to(behind))
        return self._scores

    def _bank(self) -> QueryBank:
        """The bank with this batch; before a gallery of other vectors, this batch alone."""
        forward, memory = self._forward, self._memory
        if memory.vectors.shape[1] != forward.vectors.shape[1]:
            memory = QueryBank.empty(forward.vectors.shape[1], forward.vectors.device)
        return self._hubs._with_batch(forward, memory)

    def _corrected_scores(self) -> Tensor:
        hubs, forward, bank = self._hubs, self._forward, self._bank()
        sums = hubs._sums(forward, bank)
        assert sums is not None
        scores = hubs._own_scores(forward)
        every = torch.arange(scores.shape[1], device=scores.device)
        hub = sums.nearness - sums.spread / 4 * popularity(bank.claims, every, len(every)).log()
        return scores - hubs.strength(forward, bank) * hub.to(scores)

    def _best(self, count: int) -> Hits:
        scores, exclude = self.all_scores(), self._forward.exclude
        left = scores.shape[1]
        if exclude is not None:
            left -= int(torch.bincount(exclude[:, 0]).max())
        best, positions = scores.topk(min(count, left), dim=1)
        return Hits(positions, best, self._forward.hits(1).candidates)

    def _corrected_hits(self, count: int) -> Hits:
        """The hits of one search, ranked anew."""
        hubs, hits = self._hubs, self._before.hits(max(count, self._hubs.depth))
        bank = self._bank()
        positions, place = torch.unique(hits.positions, return_inverse=True)
        vectors = hits.candidates.vectors_at(positions[None])[0].to(hits.scores)
        spread = hubs._spread(self._forward, bank)
        asked = popularity(bank.claims, positions, len(self._forward.gallery))
        hub = nearness_of(bank, positions, vectors, spread).others - spread / 4 * asked.log()
        scores = hits.scores - hubs.strength(self._forward, bank) * hub[place]
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return replace(hits, scores=scores, positions=hits.positions.gather(1, order))


def _unsure(scores: Tensor, spread: float) -> Tensor:
    """1 - the largest probability of each query (B,), at a quarter of the spread."""
    return 1 - (scores / (spread / 4)).softmax(dim=1).amax(dim=1)
