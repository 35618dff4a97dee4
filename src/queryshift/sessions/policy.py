"""Between a query and its answer: the rules of a session, and the numbers that they use.

1. Doubt. The source model is in doubt where its best scores stand out no more than by accident,
   in the mean over the latest 64 queries (`retrieval/unsureness.py`).
2. What teaches. A query that repeats another one of its batch teaches nothing. Fewer than ten
   different ones (all of a smaller batch), queries without spread, and queries that the source
   is not in doubt about teach nothing together.
3. How much. The learning rate is times the doubt, and falls with the root of the number of
   batches. Each step learns from the whole batch at first, then from a half, then from a third:
   together the three steps see every query.
4. The rate. Where neither the user nor the encoder names one, the first batch gives it: query
   vectors move by a set part of the gallery's spread.
5. Collapse. Where one candidate takes over the first places, or a number is not finite, the
   session goes back to its source.
6. Hubs. Candidates near to every query of the stream are set back by how near they are, times the
   doubt (`retrieval/hub_correction.py`).
7. Who answers. Both models: candidates rank by a mixture of what the two predict, in which the
   adapted one weighs as much as the doubt, and 0.6 at most (`retrieval/fusion.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.vectors import Vectors
from queryshift.galleries import Searchable
from queryshift.methods import Frozen, InfoMax
from queryshift.methods.base import Method
from queryshift.methods.losses import distance
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.fusion import SHORTLIST
from queryshift.retrieval.hub_correction import Hubs
from queryshift.retrieval.query_bank import keys_of, repeated
from queryshift.retrieval.unsureness import BEST, FIRST, LATEST, SURE, chances_of, doubt, latest

from .guard import FEW, Guard
from .settings import Settings

MOST = 0.6  # weight of the adapted model
MOVE = 0.36  # mean way of query vectors in the first step, of the gallery's spread
CENTRES = 10  # of the gallery: its spread is theirs
PROBES = 4  # forwards in the first batch that look for the rate
FIRST_RATE = 3e-3  # where the search begins: any other ends at the same rate

CONSTANTS: Mapping[str, float] = {
    "first": FIRST,
    "best": BEST,
    "sure": SURE,
    "latest": LATEST,
    "collapse": Guard().collapse,
    "spread": Guard().spread,
    "part": InfoMax().part,
    "steps": Settings().steps,
    "move": MOVE,
    "bank": Hubs().bank,
    "most": MOST,
    "shortlist": SHORTLIST,
}
"""The numbers of the rules, by name."""


def default_method(encoder: Encoder) -> Method:
    """InfoMax; queries that come as vectors have nothing to adapt."""
    return Frozen() if isinstance(encoder, Vectors) else InfoMax()


def default_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Hub correction, and answers after the updates; what the user says wins."""
    bare = "guard" in given and given["guard"] is None
    return {"hubs": None if bare else Hubs(), "score_from": "after", **given}


@dataclass(frozen=True)
class Look:
    """What the source model makes of a batch."""

    doubt: float  # between 0 and 1
    chances: Tensor  # of the latest queries from now on
    rows: Tensor | None  # (B,) queries that may teach, on the CPU: not all; None: all
    different: int  # how many those are

    def teaches(self, smallest: int) -> bool:
        """Whether a session learns from the batch; `smallest` is what its method needs."""
        size = self.different if self.rows is None else len(self.rows)
        return self.doubt > 0 and self.different >= max(smallest, min(FEW, size))


@torch.no_grad()
def look(source: Forward, before: Tensor, guard: Guard) -> Look:
    """The source model's look at a batch; one wait for the GPU.

    Args:
        source: The batch, seen by the source model.
        before: The chances of the latest queries before.
        guard: How much spread queries have that teach.
    """
    vectors = source.vectors.detach().float()
    source.hits(SHORTLIST)  # as many as an answer needs: one search serves all
    chances = latest(before, chances_of(source))
    if len(vectors) == 1:  # repeats nothing, and has no spread
        return Look(float(doubt(chances)), chances, None, 1)
    copies = repeated(keys_of(vectors))
    apart = spread_of(vectors, ~copies) >= guard.spread * gallery_spread(source.gallery, vectors)
    said = torch.cat((doubt(chances)[None], apart[None].to(chances), copies.to(chances)))
    doubted, spread_out, *again = said.tolist()
    teaching = [bool(spread_out) and not copy for copy in again]
    rows = None if all(teaching) else torch.tensor(teaching, device="cpu")
    return Look(doubted, chances, rows, sum(teaching))


def doubt_of(source: Forward, before: Tensor) -> float:
    """How much in doubt the source is of queries, together with the latest before them."""
    source.hits(SHORTLIST)  # as many as an answer needs: one search serves all
    return float(doubt(latest(before, chances_of(source))))


def weight(doubted: float) -> float:
    """The weight of what was learnt in an answer; 0: the source model answers alone."""
    return min(MOST, doubted)


def step_rows(rows: Tensor | None, size: int, share: float, step: int, steps: int) -> Tensor | None:
    """Which queries (B,) one step learns from, on the CPU; None: all.

    Each step begins a part further on, so that together they see every query.

    Args:
        rows: Those that may teach; None: all.
        size: How many queries the batch has.
        share: The share of these that one step learns from.
        step: Which step it is.
        steps: How many there are.
    """
    if share >= 1:
        return rows
    teaching = torch.arange(size, device="cpu") if rows is None else rows.nonzero()[:, 0]
    count = math.ceil(share * len(teaching))
    first = step * len(teaching) // steps
    some = teaching.roll(-first)[:count]
    return torch.zeros(size, dtype=torch.bool, device="cpu").index_fill_(0, some, True)


def gallery_spread(gallery: Searchable, like: Tensor) -> Tensor:
    """The spread of a gallery: that of some centres of its candidates."""
    centres = gallery.centroids(CENTRES).to(like)
    return spread_of(centres, torch.ones_like(centres[:, 0]))


def spread_of(vectors: Tensor, rows: Tensor) -> Tensor:
    """Mean distance of some rows (n,) of vectors to their centre; 0 of none."""
    weights = rows.to(vectors) / rows.sum().clamp(min=1)
    return (weights * distance(vectors, weights @ vectors)).sum()
