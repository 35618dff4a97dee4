"""What a batch gives: the next state, the answer, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from queryshift.methods.losses import LIMIT_MARGIN, SourceLike, distance, entropy, gap, reliability
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Batch, Forward
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.retrieval.refinement import refined
from queryshift.retrieval.reranking import MatchedRanking
from queryshift.support.deprecation import RenamedAttribute, stored_as

from .events import Event
from .policy import answer_of
from .state import Adaptation, State

NEIGHBOURS, TEMPERATURE = 10, 0.02  # the paper's, so that all methods are measured alike
WATCHED_BATCHES, WATCHED_SHARE = 10, 0.3
WATCHED_PAIRS = 16  # few: they serve statistics only, and sessions should stay small


@dataclass(frozen=True)
class BatchStats:
    """Statistics of one batch. None of them needs a label.

    Args:
        batch: number of the batch, counted from 1.
        queries: number of queries.
        adapted: whether the session learnt from it.
        spread: mean distance of the query vectors to their centre.
        gap: distance of the queries' centre to that of their nearest candidates.
        source_gap: the same for the most source-like pairs.
        similarity: mean cosine of a query and its nearest candidate.
        entropy: mean entropy of the refined prediction, in nats.
        reliable: share of the queries with an entropy low enough to learn from.
        drift: KL divergence of the prediction from the source's, if measured.
        domain_angle: degrees between the method's gradient and the general direction.
        applied_angle: degrees between the applied gradient and the general direction.
        disagreement: in shadow mode, share of top-1 results that differ from the source's.
        restart: why the batch reset the session, if it did.
        resets: number of resets so far.
        shift_score: how much farther the batch is from its nearest candidates than the guard's
            reference queries, in standard errors.
        time: when the batch was answered, in seconds since the epoch.

    Examples:
        >>> import torch
        >>> import queryshift as qs
        >>> class Rows(qs.Encoder):
        ...     def prepare(self, items):
        ...         return torch.tensor(items)
        ...     def forward(self, prepared):
        ...         return torch.nn.functional.normalize(prepared, dim=1)
        >>> gallery = qs.Gallery.from_vectors(["up", "down"], torch.tensor([[0.0, 1], [0, -1]]))
        >>> session = qs.Session(Rows(), gallery, qs.Frozen())
        >>> _ = session.answer([[0.6, 0.8], [-0.6, 0.8]])
        >>> stats = session.stats()
        >>> stats.queries, round(stats.similarity, 2), round(stats.spread, 2)
        (2, 0.8, 0.6)
    """

    batch: int
    queries: int
    adapted: bool
    spread: float
    gap: float
    source_gap: float | None
    similarity: float
    entropy: float
    reliable: float | None
    drift: float | None = None
    domain_angle: float | None = None
    applied_angle: float | None = None
    disagreement: float | None = None
    restart: str | None = None
    resets: int = 0
    shift_score: float | None = stored_as("strangeness", default=None)
    time: float = field(default=0.0, compare=False)

    strangeness = RenamedAttribute("shift_score")


@torch.no_grad()
def measures(
    forward: Forward, source: SourceLike, trusted: Tensor | None, more: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Measure one forward against the source-like pairs so far; one wait for the GPU.

    Args:
        forward: the forward that answers the batch.
        source: the most source-like pairs.
        trusted: the method's own entropies, if they are not the refined prediction's.
        more: measures of the steps.
    """
    entropies = refined_entropies(forward)  # first: its search is deep enough for the nearest
    queries, nearest = forward.vectors, forward.nearest
    values = [
        distance(queries, queries.mean(dim=0)).mean(),
        gap(queries, nearest),
        (queries * nearest).sum(dim=1).mean(),
        entropies.mean(),
    ]
    names = ["spread", "gap", "similarity", "entropy"]
    if len(source):
        compared = entropies if trusted is None else trusted
        reliable = reliability(compared, source.entropy_limit.to(compared) + LIMIT_MARGIN) > 0
        values += [source.gap.to(queries), reliable.to(queries.dtype).mean()]
        names += ["source_gap", "reliable"]
    values += [value.to(queries) for value in more.values()]
    measured = dict(zip([*names, *more], torch.stack(values).tolist(), strict=True))
    return {"source_gap": None, "reliable": None, **measured}


@torch.no_grad()
def refined_entropies(forward: Forward) -> Tensor:
    """Entropy (B,) of the refined prediction with the paper's settings."""
    return entropy(refined(forward, NEIGHBOURS, TEMPERATURE).logits)


@dataclass(frozen=True)
class BatchResult:
    """The next state, the answer, its statistics and events."""

    state: State
    answer: Answer
    stats: BatchStats
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """What a batch leads to, before the guard decides."""

    state: State
    forward: Forward  # answers the batch
    first: Forward | None = None  # of the first step, before any update; None: no step was taken
    measures: Mapping[str, Tensor] = field(default_factory=dict)  # of the steps
    unshifted: bool = False  # a normal batch: it looks like the reference queries
    weight: float = 1.0  # of this forward in the answer; the rest is the source model's
    sound: bool = False  # its state and all vectors are known to be finite
    rows: Tensor | None = None  # (B,) queries that hub correction remembers; None: all


def batch_result(
    adaptation: Adaptation,
    proposal: Proposal,
    batch: Batch,
    adapt: bool,
    event: Event | None = None,
) -> BatchResult:
    """Answer a batch, count it in the state, and compute its statistics."""
    forward, state = proposal.forward, proposal.state
    state = replace(
        state,
        watched=_watched(state, forward),
        batches=state.batches + 1,
        hubs=_remembered(adaptation, proposal, forward) if adapt else state.hubs,
    )
    reference, shift_score = adaptation.reference, None
    if reference is not None and batch.source is not None:
        shift_score = reference.shift_score(batch.source)
    answer = answer_of(adaptation, state, batch, forward, proposal.weight)
    pairs = state.memory if isinstance(state.memory, SourceLike) else state.watched
    stats = BatchStats(
        batch=state.batches,
        queries=len(batch),
        adapted=proposal.first is not None,
        disagreement=_disagreement(adaptation, answer, batch),
        restart=None if event is None else event.reason,
        resets=state.resets,
        shift_score=shift_score,
        **measures(forward, pairs, adaptation.method.entropies(forward), proposal.measures),
    )
    return BatchResult(state, answer, stats, () if event is None else (event,))


def _disagreement(adaptation: Adaptation, answer: Answer, batch: Batch) -> float | None:
    """In shadow mode, the share of top-1 results (before a matcher) unlike the source's."""
    if adaptation.settings.mode != "shadow":
        return None
    order = answer.adapted.ranking
    adapted = (order.before if isinstance(order, MatchedRanking) else order).hits(1).positions
    return float((adaptation.source_forward(batch).hits(1).positions != adapted).float().mean())


def _remembered(adaptation: Adaptation, proposal: Proposal, forward: Forward) -> QueryBank | None:
    """What hub correction remembers after the batch's different queries."""
    hubs, bank, rows = adaptation.settings.hubs, proposal.state.hubs, proposal.rows
    if hubs is None or bank is None or proposal.weight == 0:
        return bank
    if rows is None:
        return hubs.observe(forward, bank)
    return hubs.observe(forward.taking(rows), bank) if bool(rows.any()) else bank


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
