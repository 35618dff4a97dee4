"""What of a gallery the correction of a batch reaches: all of it, or the hits of one search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from queryshift.galleries.exclusions import mask_excluded
from queryshift.support.lazy import lazy_property

from .forward import Forward
from .hub_hits import CENTRES, CentreMoments, HitSums
from .hub_sums import HubSums
from .listed import in_memory
from .query_bank import QueryBank, keys_of
from .unsureness import BEST, chances_of

SUMS, MOMENTS = "sums", "moments"  # of a bank, kept beside it: no part of what is saved


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
