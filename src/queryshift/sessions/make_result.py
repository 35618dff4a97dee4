"""The result of a batch: who answers, the state with the batch counted, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from queryshift.methods.source_like import SourceLike
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import ranked

from .adaptation import Adaptation
from .answering import chosen_answer, ranked_answer
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
    by_source, state = proposal.by_source, proposal.state
    forward = adaptation.source_forward(batch) if by_source else proposal.forward
    learnt = proposal.first is not None
    chosen = not by_source and (learnt or adaptation.judges(state, len(batch)))
    state = replace(
        state,
        watched=_watched(state, forward),
        batches=state.batches + 1,
        stages=_remembered(adaptation, proposal, forward) if adapt else state.stages,
    )
    ordinary, strangeness = adaptation.ordinary, None
    if ordinary is not None and batch.source is not None:
        strangeness = ordinary.strangeness(batch.source)
    answer = ranked_answer(adaptation, state, forward, batch, by_source)
    if chosen:
        answer = chosen_answer(adaptation, state, forward, answer, batch)
    pairs = state.memory if isinstance(state.memory, SourceLike) else state.watched
    stats = BatchStats(
        batch=state.batches,
        queries=len(batch),
        adapted=proposal.first is not None,
        disagreement=_disagreement(adaptation, state, forward, batch, by_source),
        restart=None if event is None else event.reason,
        resets=state.resets,
        strangeness=strangeness,
        **measures(forward, pairs, adaptation.method.unsure(forward), proposal.measures),
    )
    return BatchResult(state, answer, stats, () if event is None else (event,))


def _disagreement(
    adaptation: Adaptation, state: State, forward: Forward, batch: Batch, by_source: bool
) -> float | None:
    """In shadow mode, the share of first places (before a matcher) unlike the source's."""
    if adaptation.settings.mode != "shadow":
        return None
    learning = [one for one in adaptation.stages if one.learns and not by_source]
    adapted = ranked(forward, learning, state.stages).hits(1).positions
    return float((adaptation.source_forward(batch).hits(1).positions != adapted).float().mean())


def _remembered(adaptation: Adaptation, proposal: Proposal, forward: Forward) -> Mapping[str, Any]:
    """What the re-ranking stages remember after this batch: nothing of what the source knew."""
    state, rows = proposal.state, proposal.rows
    if proposal.by_source or (rows is not None and not bool(rows.any())):
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
