"""Who answers, and how: the adapted model, the source, or both. Written once, for every door."""

from __future__ import annotations

import torch

from queryshift.errors import Error
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.fusion import FusedRanking
from queryshift.retrieval.reranking import Ranking, ranked
from queryshift.retrieval.unsureness import doubt
from queryshift.retrieval.vector_checks import checked, fitting
from queryshift.support.alone import working

from .adaptation import Adaptation
from .guard import FEW
from .policy import doubt_of, weight
from .state import State


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
    if _is_ordinary(adaptation, state, batch):
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
    known = adaptation.ordinary is not None and state.ordinary_streak > 0
    return 0.0 if known else weight(float(doubt(state.chances)))


def _is_ordinary(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether the guard knows such queries; a few are taken for what the batch before them was."""
    guard, ordinary = adaptation.settings.guard, adaptation.ordinary
    if guard is None or ordinary is None:
        return False
    if len(batch) < FEW:
        return state.ordinary_streak > 0
    return ordinary.knows(adaptation.source_forward(batch))


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
