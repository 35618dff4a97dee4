"""Answers of a state as it is: by what was learnt, or by the source where that does better."""

from __future__ import annotations

from functools import partial

import torch

from queryshift.errors import Error
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import Ranking, ranked
from queryshift.retrieval.vector_checks import checked, fitting
from queryshift.support.alone import working

from .adaptation import Adaptation
from .choice import RankingByRow, source_rows
from .guard import lead
from .state import State


@working()
def answer_now(adaptation: Adaptation, state: State, batch: Batch, count: int) -> Answer:
    """The answer to a batch without statistics; `count` hits are searched for at once."""

    def answer() -> Answer:
        by_source = source_answers(adaptation, state, batch)
        forward = checked(answering_forward(adaptation, state, batch, count, by_source))
        plain = ranked_answer(adaptation, state, forward, batch, by_source)
        if by_source or not adaptation.judges(state, len(batch)):
            return plain
        return chosen_answer(adaptation, state, forward, plain, batch)

    if adaptation.settings.mode == "live":
        return answer()
    plain = checked(adaptation.source_forward(batch))
    return Answer(plain, ranking(adaptation, plain, state, True), adapted=lambda: answer().adapted)


def answering_forward(
    adaptation: Adaptation, state: State, batch: Batch, count: int = 0, by_source: bool = False
) -> Forward:
    """The forward that answers a batch now, without adapting.

    `count` hits are searched for before the vectors are checked, which waits for a GPU.
    """
    params = adaptation.source if by_source else adaptation.params(state)
    if params is adaptation.source:
        forward = adaptation.source_forward(batch)
    else:
        forward = fitting(batch.forward(params, graph=False))
    viewed = forward
    if not by_source:
        viewed = adaptation.method.view(forward, state.memory).detached()
    if count:
        viewed.hits(count)
    checked(forward)
    return viewed


def source_answers(
    adaptation: Adaptation, state: State, batch: Batch, measured: float | None = None
) -> bool:
    """Whether the source answers queries better: the guard knows them, or it is surer of them.

    A few queries are taken for what the batch before them was. `measured` is the source's lead,
    where it is known already.
    """
    guard = adaptation.settings.guard
    if guard is None or not adaptation.judges(state, len(batch)):
        return adaptation.answered_by_source(state)
    if adaptation.ordinary is not None:
        return adaptation.ordinary.knows(adaptation.source_forward(batch))
    now = float(lead(adaptation.source_forward(batch))) if measured is None else measured
    return now > guard.surer * state.lead


def ranked_answer(
    adaptation: Adaptation, state: State, forward: Forward, batch: Batch, by_source: bool = False
) -> Answer:
    """The ranked answer of a forward; in shadow mode the source's, this one beside it."""

    def source() -> Answer:
        plain = checked(adaptation.source_forward(batch))
        return Answer(plain, ranking(adaptation, plain, state, by_source=True))

    order = ranking(adaptation, forward, state, by_source)
    adapted = Answer(forward, order, source=source)
    if adaptation.settings.mode != "shadow":
        return adapted
    plain = adaptation.source_forward(batch)
    return Answer(plain, ranking(adaptation, plain, state, by_source=True), adapted=adapted)


def chosen_answer(
    adaptation: Adaptation, state: State, forward: Forward, answer: Answer, batch: Batch
) -> Answer:
    """The answer of a forward, with the source's own to those queries that it answers as well.

    In shadow mode the answer beside the source's is what a live session would answer.
    """
    if not adaptation.settings.chooses:
        return answer
    if adaptation.settings.mode != "shadow":
        return _chosen(adaptation, state, forward, answer, batch)
    plain, live = adaptation.source_forward(batch), answer.adapted
    chosen = partial(_chosen, adaptation, state, forward, live, batch)
    return Answer(plain, answer.ranking, adapted=chosen)


def _chosen(
    adaptation: Adaptation, state: State, forward: Forward, answer: Answer, batch: Batch
) -> Answer:
    source = adaptation.source_forward(batch)
    rows = source_rows(forward, answer.ranking, source)
    if (count := int(rows.sum())) == 0:  # one wait for the GPU
        return answer
    plain = Answer(source, ranking(adaptation, source, state, by_source=True))
    if count == len(rows):
        return plain
    order = RankingByRow(rows, plain.ranking, answer.ranking)
    searched = forward
    if source.vectors.shape == forward.vectors.shape:  # a method's view may have its own
        searched = forward.moved(torch.where(rows[:, None], source.vectors, forward.vectors))
    return Answer(searched, order, source=lambda: plain)


def ranking(adaptation: Adaptation, forward: Forward, state: State, by_source: bool) -> Ranking:
    """The order after all re-ranking stages; the source's goes without those that learn."""
    stages = [stage for stage in adaptation.stages if not (by_source and stage.learns)]
    return ranked(forward, stages, state.stages)


def gives_nonsense(adaptation: Adaptation, state: State, batch: Batch) -> bool:
    """Whether the state gives vectors for these queries that are not finite."""
    try:
        vectors = batch.forward(adaptation.params(state), graph=False).vectors
    except (Error, RuntimeError):  # it gives none: what was raised before says why
        return False
    return not bool(torch.isfinite(vectors).all())
