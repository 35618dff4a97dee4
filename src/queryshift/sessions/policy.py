"""Between a query and its answer: the rules of a session, and the numbers that they use.

1. Doubt. The source model is in doubt where its best scores stand out no more than by accident,
   in the mean over the latest 64 queries (`retrieval/uncertainty.py`), and less where the
   batch's top-1 results coincide less often than by chance. Copies within a batch count once.
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
   doubt, as long as this spreads the top-1 results over no fewer candidates
   (`retrieval/hubness/hub_correction.py`).
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
from queryshift.errors import Error
from queryshift.galleries import Searchable
from queryshift.methods import Frozen, InfoMax
from queryshift.methods.base import Method
from queryshift.methods.losses import distance
from queryshift.methods.specs import DEFAULT, Spec
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward, checked, fitting
from queryshift.retrieval.fusion import SHORTLIST, FusedRanking
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.hubness.query_bank import keys_of, repeated
from queryshift.retrieval.reranking import Ranking, ranked
from queryshift.retrieval.uncertainty import BEST, FIRST, LATEST, SURE, chances_of, doubt, latest
from queryshift.support.threads import working

from .guard import Guard
from .session_settings import Settings
from .state import Adaptation, State

FEW = 2 * FIRST  # queries: a smaller batch says too little by itself
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
    """The source model's look at a batch; one wait for the GPU, two where it has copies.

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
    doubts = doubt(chances) * shared(source, copies)
    said = torch.cat((doubts[None], apart[None].to(chances), copies.to(chances)))
    doubted, spread_out, *again = said.tolist()
    if any(again):
        chances = latest(before, chances_of(source)[~copies])
        doubted = float(doubt(chances) * shared(source, copies))
    teaching = [bool(spread_out) and not copy for copy in again]
    rows = None if all(teaching) else torch.tensor(teaching, device="cpu")
    return Look(doubted, chances, rows, sum(teaching))


def doubt_of(source: Forward, before: Tensor) -> float:
    """How much in doubt the source is of queries, together with the latest before them."""
    source.hits(SHORTLIST)  # as many as an answer needs: one search serves all
    copies = repeated(keys_of(source.vectors))
    return float(doubt(latest(before, chances_of(source)[~copies])) * shared(source, copies))


def shared(source: Forward, copies: Tensor) -> Tensor:
    """How often different queries share a top-1 result, of what chance would give; 1 at most.

    A model that guesses hits some candidates twice. In a small gallery, queries that each find
    another candidate were not guessed at, however little their best scores stand out.

    Args:
        source: The batch, seen by the source model.
        copies: Which of its queries (B,) repeat another one.
    """
    firsts = source.hits(SHORTLIST).positions[:, 0]
    together = (firsts[:, None] == firsts) & ~copies[:, None] & ~copies
    different = (~copies).sum()
    pairs = (together.sum() - different) / 2
    by_chance = different * (different - 1) / 2 / len(source.gallery)
    return ((pairs + 1) / by_chance).clamp(max=1)  # one pair more or less says nothing


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


@working()
def answer_now(adaptation: Adaptation, state: State, batch: Batch, count: int) -> Answer:
    """The answer to a batch without statistics; `count` hits are searched for at once."""
    share = weight_of(adaptation, state, batch)
    forward = answering_forward(adaptation, state, batch, share, count)
    return answer_of(adaptation, state, batch, forward, share)


def weight_of(
    adaptation: Adaptation, state: State, batch: Batch, doubted: float | None = None
) -> float:
    """How much the adapted model has to say in the answer to a batch; the source has the rest.

    Args:
        adaptation: Encoder, method and settings.
        state: The state in force.
        batch: The queries.
        doubted: The doubt of the source, where it is known already.
    """
    if adaptation.settings.guard is None or state.adapted.updates == 0:
        return 1.0
    if _is_unshifted(adaptation, state, batch):
        return 0.0
    if doubted is None:
        doubted = doubt_of(adaptation.source_forward(batch), state.chances)
    return weight(doubted)


def standing_weight(adaptation: Adaptation, state: State) -> float:
    """The same for the next query, by what the latest ones were."""
    if state.adapted.updates == 0:
        return 0.0
    if adaptation.settings.guard is None:
        return 1.0
    known = adaptation.reference is not None and state.reference_streak > 0
    return 0.0 if known else weight(float(doubt(state.chances)))


def _is_unshifted(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether a batch looks like the reference queries; a small one counts as the batch before."""
    guard, reference = adaptation.settings.guard, adaptation.reference
    if guard is None or reference is None:
        return False
    if len(batch) < FEW:
        return state.reference_streak > 0
    return reference.knows(adaptation.source_forward(batch))


def answering_forward(
    adaptation: Adaptation, state: State, batch: Batch, share: float = 1.0, count: int = 0
) -> Forward:
    """The forward of the adapted model, or of the source where that answers alone.

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
    """The answer of a forward that has this share in it; in shadow mode the source's, with it."""

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
    """The order of candidates: corrected, fused with the source's, then ranked by a matcher."""
    order: Ranking = forward
    if share > 0:
        order = ranked(forward, [one for one in adaptation.stages if one.learns], state.stages)
    if source is not None and 0 < share < 1:
        order = FusedRanking(source, order, share)
    for stage in adaptation.stages:
        if not stage.learns:
            order = stage.rank(forward, order, state.stages.get(stage.name))
    return order


def gives_nonsense(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether the state gives vectors for these queries that are not finite."""
    try:
        vectors = batch.forward(adaptation.params(state), graph=False).vectors
    except (Error, RuntimeError):  # it gives none: what was raised before says why
        return False
    return not bool(torch.isfinite(vectors).all())


def named(
    text: str, encoder: Encoder, given: Mapping[str, Any] | None = None
) -> tuple[Method, dict[str, Any]]:
    """The method of a spec and the settings of its session.

    Args:
        text: a method in words; "default" is a session without a method.
        encoder: the encoder of the session.
        given: settings that win over those of the spec.

    Returns:
        What `Session(encoder, gallery, method, **settings)` takes.
    """
    spec = Spec.read(text)
    if spec.method.name == DEFAULT:
        return default_method(encoder), default_settings(given or {})
    usual = {"hubs": spec.hubs, "score_from": Settings().score_from}
    return spec.make(), {**usual, **(given or {})}


@torch.no_grad()
def objection(guard: Guard, now: Forward, source: Forward) -> str | None:
    """Why a batch's answers must not be returned, or None; one wait for the GPU.

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
