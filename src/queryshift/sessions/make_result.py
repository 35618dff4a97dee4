"""The result of a batch: who answers, the state with the batch counted, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from queryshift.methods.source_like import SourceLike
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import MatchedRanking

from .adaptation import Adaptation
from .answering import answer_of
from .batch_result import BatchResult, Proposal
from .batch_stats import BatchStats, measures, refined_entropies
from .events import Event
from .state import State

WATCHED_BATCHES, WATCHED_SHARE = 10, 0.3
WATCHED_PAIRS = 16  # few: they are for statistics, and a session is to stay small


def batch_result(
    adaptation: Adaptation,
    proposal: Proposal,
    batch: Batch,
    adapt: bool,
    event: Event | None = None,
) -> BatchResult:
    """The answer, the state with this batch counted, and the batch's statistics."""
    forward, state = proposal.forward, proposal.state
    state = replace(
        state,
        watched=_watched(state, forward),
        batches=state.batches + 1,
        stages=_remembered(adaptation, proposal, forward) if adapt else state.stages,
    )
    ordinary, strangeness = adaptation.ordinary, None
    if ordinary is not None and batch.source is not None:
        strangeness = ordinary.strangeness(batch.source)
    answer = answer_of(adaptation, state, batch, forward, proposal.weight)
    pairs = state.memory if isinstance(state.memory, SourceLike) else state.watched
    stats = BatchStats(
        batch=state.batches,
        queries=len(batch),
        adapted=proposal.first is not None,
        disagreement=_disagreement(adaptation, answer, batch),
        restart=None if event is None else event.reason,
        resets=state.resets,
        strangeness=strangeness,
        **measures(forward, pairs, adaptation.method.unsure(forward), proposal.measures),
    )
    return BatchResult(state, answer, stats, () if event is None else (event,))


def _disagreement(adaptation: Adaptation, answer: Answer, batch: Batch) -> float | None:
    """In shadow mode, the share of first places (before a matcher) unlike the source's."""
    if adaptation.settings.mode != "shadow":
        return None
    order = answer.adapted.ranking
    adapted = (order.before if isinstance(order, MatchedRanking) else order).hits(1).positions
    return float((adaptation.source_forward(batch).hits(1).positions != adapted).float().mean())


def _remembered(adaptation: Adaptation, proposal: Proposal, forward: Forward) -> Mapping[str, Any]:
    """What the re-ranking stages remember: different queries, seen by the adapted model."""
    state, rows = proposal.state, proposal.rows
    if proposal.weight == 0 or (rows is not None and not bool(rows.any())):
        return state.stages
    if rows is not None:
        forward = forward.taking(rows)
    return {
        stage.name: stage.observe(forward, state.stages.get(stage.name))
        for stage in adaptation.stages
    }


def _watched(state: State, forward: Forward) -> SourceLike:
    """Source-like pairs for the statistics of methods that keep none of their own."""
    kept = isinstance(state.memory, SourceLike)
    if kept or state.watched.batches >= WATCHED_BATCHES or len(forward) < 2:
        return state.watched
    pairs = state.watched if len(state.watched) else SourceLike.empty(forward.vectors)
    if pairs.queries.shape[1] != forward.vectors.shape[1]:  # a method's view may have its own
        return state.watched
    entropies = refined_entropies(forward)  # first: its search is deep enough for the nearest
    return pairs.with_batch(
        forward.vectors, forward.nearest, entropies, WATCHED_SHARE, WATCHED_PAIRS
    )
