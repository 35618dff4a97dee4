"""Between a query and its answer: the rules of a session, and the numbers that they use.

1. Uncertainty. The source model is uncertain if the gaps between its best scores are no wider than
   chance explains, on average over the latest 64 queries (`retrieval/uncertainty.py`), and less if
   their top-1 results coincide less often than by chance. Repeated queries count once.
2. What to learn from. A session learns from a batch if the source model is uncertain, at least ten
   of its queries differ (all of them in a smaller batch), and they are spread out. It does not
   learn from repeated queries.
3. How much to learn. The learning rate is multiplied by the uncertainty. With the default method
   it also falls with the square root of the number of batches, and each step learns from the whole
   batch at first, then from a half, then from a third: the three steps together see every query.
4. The learning rate. If neither the user nor the encoder sets the default method's, the first batch
   does: query vectors move by a fixed fraction of the gallery's spread.
5. Collapse. If one candidate takes over the top-1 results, or a number is not finite, the session
   is reset.
6. Hubs. Candidates that are close to all queries of the stream lose score in proportion to that
   closeness and to the uncertainty of the model that gave the scores, unless this concentrates the
   top-1 results on fewer candidates (`retrieval/hubness/hub_correction.py`).
7. Who answers. After the first update, both models: candidates are ranked by a mixture of their
   predictions. The adapted model's weight is the uncertainty, at most 0.6 (`retrieval/answer.py`).
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
from queryshift.errors import Error
from queryshift.galleries import Searchable
from queryshift.methods import Frozen, InfoMax
from queryshift.methods.base import Method
from queryshift.methods.losses import distance
from queryshift.methods.specs import DEFAULT, Spec
from queryshift.retrieval.answer import SHORTLIST, Answer, FusedRanking
from queryshift.retrieval.forward import Batch, Forward, checked, fitting
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.reranking import MatchedRanking, Ranking
from queryshift.retrieval.uncertainty import (
    BEST,
    FIRST,
    LATEST,
    SURE,
    chances_of,
    doubt,
    latest,
    query_keys,
    repeated,
)
from queryshift.support.threads import working

from .guard import Guard
from .session_settings import Settings
from .state import Adaptation, State

FEW = 2 * FIRST  # queries: a smaller batch says too little by itself
MOST = 0.6  # largest weight of the adapted model
MOVE = 0.36  # mean distance that query vectors move in the first step, relative to the gallery
CENTRES = 10  # centroids that the gallery's spread is measured on
PROBES = 4  # forwards of the first batch that search for the learning rate
FIRST_RATE = 3e-3  # where that search starts; it ends at the same rate from anywhere

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
    """The method of a session without one; vectors as queries leave nothing to adapt."""
    return Frozen() if isinstance(encoder, Vectors) else InfoMax()


def default_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a session without a method; the user's settings win."""
    bare = "guard" in given and given["guard"] is None
    return {"hubs": None if bare else Hubs(), "score_from": "after", **given}


def from_spec(
    text: str, encoder: Encoder, given: Mapping[str, Any] | None = None
) -> tuple[Method, dict[str, Any]]:
    """The method and settings that a text such as "default" or "frozen+hubs" stands for.

    Args:
        text: The spec; "default" is a session without a method.
        encoder: The encoder of the session.
        given: Settings that win over those of the spec.

    Returns:
        Arguments for `Session(encoder, gallery, method, **settings)`.
    """
    spec = Spec.read(text)
    if spec.method.name == DEFAULT:
        return default_method(encoder), default_settings(given or {})
    usual = {"hubs": spec.hubs, "score_from": Settings().score_from}
    return spec.make(), {**usual, **(given or {})}


@dataclass(frozen=True)
class Assessment:
    """What the source model says about a batch (rules 1 and 2)."""

    doubt: float  # uncertainty between 0 and 1
    chances: Tensor  # of the latest queries, this batch included
    found: Tensor  # (n, 2) keys and top-1 results of the latest queries, this batch included
    rows: Tensor | None  # (B,) queries to learn from, on the CPU; None: all
    different: int  # how many those are

    def teaches(self, smallest: int) -> bool:
        """Whether a session learns from the batch; `smallest` is its method's smallest batch."""
        size = self.different if self.rows is None else len(self.rows)
        return self.doubt > 0 and self.different >= max(smallest, min(FEW, size))


@torch.no_grad()
def assess(source: Forward, state: State, guard: Guard, asked: bool = True) -> Assessment:
    """Assess a batch by the source model's forward; one wait for the GPU, two if queries repeat.

    Args:
        source: The batch through the source model.
        state: The state before it.
        guard: The least spread of queries to learn from.
        asked: Whether the uncertainty matters; if not, that of a single query is left at 0.
    """
    found = found_by(source, state)
    chances = latest(state.chances, chances_of(source))
    if len(source) == 1 and not asked:
        return Assessment(0.0, chances, found, None, 1)
    doubts = doubt(chances) * shared(found, len(source.gallery))
    if len(source) == 1:  # repeats nothing, and has no spread
        return Assessment(float(doubts), chances, found, None, 1)
    vectors = source.vectors.detach().float()
    copies = repeated(found[-len(vectors) :, 0])
    apart = spread_of(vectors, ~copies) >= guard.spread * gallery_spread(source.gallery, vectors)
    packed = torch.cat((doubts[None], apart[None].to(chances), copies.to(chances)))
    doubted, spread_out, *is_copy = packed.tolist()
    if any(is_copy):
        chances = latest(state.chances, chances_of(source)[~copies])
        doubted = float(doubt(chances) * shared(found, len(source.gallery)))
    teaching = [bool(spread_out) and not copy for copy in is_copy]
    rows = None if all(teaching) else torch.tensor(teaching, device="cpu")
    return Assessment(doubted, chances, found, rows, sum(teaching))


def doubt_of(source: Forward, state: State) -> float:
    """The source model's uncertainty about a batch and the latest queries before it."""
    found = found_by(source, state)
    chances = chances_of(source)
    if len(source) > 1:  # one query repeats nothing
        chances = chances[~repeated(found[-len(source) :, 0])]
    return float(doubt(latest(state.chances, chances)) * shared(found, len(source.gallery)))


def found_by(source: Forward, state: State) -> Tensor:
    """Keys and top-1 results (n, 2) of a batch; of a small one, with the latest before it.

    For single queries to a gallery so large that `shared` is 1 anyway, nothing is kept.

    Args:
        source: The batch through the source model.
        state: The state before it.
    """
    top = source.at_least(SHORTLIST).positions[:, 0]  # as many as an answer needs: one search
    if len(source) == 1 and not _tells(LATEST, len(source.gallery)):
        return state.found[:0]
    return latest(state.found, torch.stack((query_keys(source), top), dim=1))


def shared(found: Tensor, candidates: int) -> Tensor:
    """How often different queries share a top-1 result, relative to chance; at most 1.

    A model that guesses hits some candidates twice. If each query finds another candidate of a
    small gallery, the model did not guess, however close its best scores are.

    Args:
        found: Key and top-1 result (n, 2) of each query.
        candidates: How many candidates the gallery has.
    """
    if not _tells(len(found), candidates):
        return torch.ones((), device=found.device)
    keys, top = found.unbind(dim=1)
    copies = repeated(keys)
    together = (top[:, None] == top) & ~copies[:, None] & ~copies
    different = (~copies).sum()
    pairs = (together.sum() - different) / 2
    by_chance = different * (different - 1) / 2 / candidates
    return ((pairs + 1) / by_chance).clamp(max=1)  # one pair more or less means nothing


def _tells(queries: int, candidates: int) -> bool:
    """Whether more than one pair of queries shares a top-1 result by chance."""
    return queries * (queries - 1) > 2 * candidates


def step_rows(rows: Tensor | None, size: int, share: float, step: int, steps: int) -> Tensor | None:
    """Which queries (B,) one step learns from, on the CPU; None: all (rule 3).

    Each step starts a part further on, so that the steps together see every query.

    Args:
        rows: The queries to learn from; None: all.
        size: How many queries the batch has.
        share: The share of those queries that one step learns from.
        step: The number of the step, from 0.
        steps: How many steps there are.
    """
    if share >= 1:
        return rows
    teaching = torch.arange(size, device="cpu") if rows is None else rows.nonzero()[:, 0]
    count = math.ceil(share * len(teaching))
    first = step * len(teaching) // steps
    some = teaching.roll(-first)[:count]
    return torch.zeros(size, dtype=torch.bool, device="cpu").index_fill_(0, some, True)


def gallery_spread(gallery: Searchable, like: Tensor) -> Tensor:
    """The spread of a gallery's centroids, on the device of `like`."""
    centres = gallery.centroids(CENTRES).to(like)
    return spread_of(centres, torch.ones_like(centres[:, 0]))


def spread_of(vectors: Tensor, rows: Tensor) -> Tensor:
    """Mean distance of the vectors that `rows` (n,) marks to their centre; 0 if none is marked."""
    weights = rows.to(vectors) / rows.sum().clamp(min=1)
    return (weights * distance(vectors, weights @ vectors)).sum()


@torch.no_grad()
def objection(guard: Guard, now: Forward, source: Forward) -> str | None:
    """Why a batch's answers must not be returned, or None (rule 5); one wait for the GPU.

    Args:
        guard: The limits.
        now: The batch through the adapted model.
        source: The batch through the source model.
    """
    top, source_top = (one.hits(SHORTLIST).positions[:, 0] for one in (now, source))
    share = gained(top, source_top)
    finite = torch.isfinite(now.vectors).all()
    known, taken = torch.stack((finite.to(now.vectors), share.to(now.vectors))).tolist()
    if not known:
        return "not finite: the adapted vectors hold NaN or infinity"
    if len(now) >= FEW and taken > guard.collapse:
        return (
            f"collapse: one candidate took {taken:.0%} more of the top-1 results than for the "
            f"source model (limit {guard.collapse:.0%})"
        )
    return None


def gained(top: Tensor, source_top: Tensor) -> Tensor:
    """The largest share of top-1 results (B,) that a candidate has beyond its share before."""
    now, before = ((one[None] == top[:, None]).sum(dim=1) for one in (top, source_top))
    return (now - before).max() / len(top)


def is_finite(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether the adapted model gives finite vectors, or fails for another reason."""
    try:
        vectors = batch.forward(adaptation.params(state), graph=False).vectors
    except (Error, RuntimeError):
        return True
    return bool(torch.isfinite(vectors).all())


def weight(doubted: float) -> float:
    """The adapted model's weight in an answer; 0: the source model answers alone (rule 7)."""
    return min(MOST, doubted)


def weight_of(
    adaptation: Adaptation, state: State, batch: Batch, doubted: float | None = None
) -> float:
    """The adapted model's weight in the answer to a batch.

    Args:
        adaptation: Encoder, method and settings.
        state: The state in force.
        batch: The queries.
        doubted: The source model's uncertainty, if it is known already.
    """
    if adaptation.settings.guard is None or state.adapted.updates == 0:
        return 1.0
    if _is_unshifted(adaptation, state, batch):
        return 0.0
    if doubted is None:
        doubted = doubt_of(adaptation.source_forward(batch), state)
    return weight(doubted)


def standing_weight(adaptation: Adaptation, state: State) -> float:
    """The adapted model's weight for the next query, judged by the latest ones."""
    if state.adapted.updates == 0:
        return 0.0
    if adaptation.settings.guard is None:
        return 1.0
    unshifted = adaptation.reference is not None and state.reference_streak > 0
    return 0.0 if unshifted else weight(float(doubt(state.chances)))


def _is_unshifted(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether a batch looks like the reference queries; a small one counts as the batch before."""
    if adaptation.reference is None:
        return False
    if len(batch) < FEW:
        return state.reference_streak > 0
    return adaptation.reference.knows(adaptation.source_forward(batch))


@working()
def answer_now(adaptation: Adaptation, state: State, batch: Batch, count: int) -> Answer:
    """The answer to a batch without statistics; `count` hits are searched for at once."""
    share = weight_of(adaptation, state, batch)
    forward = answering_forward(adaptation, state, batch, share, count)
    return answer_of(adaptation, state, batch, forward, share)


def answering_forward(
    adaptation: Adaptation, state: State, batch: Batch, share: float = 1.0, count: int = 0
) -> Forward:
    """The adapted model's forward, or the source model's if its weight `share` is 0.

    `count` hits are searched for before the vectors are checked, which waits for a GPU.
    """
    params = adaptation.params(state) if share else adaptation.source
    if params is adaptation.source:
        forward = adaptation.source_forward(batch)
    else:
        forward = fitting(batch.forward(params, graph=False))
    viewed = adaptation.method.view(forward, state.memory).detached() if share else forward
    if count:
        viewed.hits(count)
    checked(forward)
    return viewed


def answer_of(
    adaptation: Adaptation, state: State, batch: Batch, forward: Forward, share: float
) -> Answer:
    """The answer in which a forward has the weight `share`; in shadow mode, the source model's."""

    def source() -> Answer:
        plain = checked(adaptation.source_forward(batch))
        return Answer(plain, ranking(adaptation, state, plain, None, 0.0))

    def live() -> Answer:
        plain = adaptation.source_forward(batch) if 0 < share < 1 else None
        order = ranking(adaptation, state, forward, plain, share)
        return Answer(forward, order, source=source)

    if adaptation.settings.mode != "shadow":
        return live()
    plain = source()
    return Answer(adaptation.source_forward(batch), plain.ranking, adapted=live)


def ranking(
    adaptation: Adaptation, state: State, forward: Forward, source: Forward | None, share: float
) -> Ranking:
    """The order of candidates: hub correction, mixture with the source model, then the matcher."""
    order: Ranking = forward
    hubs = adaptation.settings.hubs
    if hubs is not None and state.hubs is not None and share > 0:
        order = hubs.rank(forward, order, state.hubs)
    if source is not None:
        order = FusedRanking(source, order, share)
    return order if adaptation.matching is None else MatchedRanking(forward, order)
