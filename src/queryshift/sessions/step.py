"""From a state and a batch to the next state and an answer: a pure function, all of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params, unreached
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import check_finite
from queryshift.errors import BadInput, Error, GalleryMismatch
from queryshift.galleries import Searchable
from queryshift.methods.base import UNCHANGED, Method, Update
from queryshift.methods.decoupled import drift
from queryshift.methods.gradients import angle
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike
from queryshift.retrieval.forward import Batch, Forward, StepView
from queryshift.retrieval.refinement import refined
from queryshift.retrieval.reranking import reranked
from queryshift.support.lazy import lazy_property

from .batch_stats import NEIGHBOURS, TEMPERATURE, BatchStats, measures, refined_entropies
from .guard import GuardWarning
from .settings import Settings

UNIT_TOLERANCE = 1e-2
SPREAD = 2_654_435_761  # sets seeds far apart within the 32 bits that a generator takes
WATCHED_BATCHES, WATCHED_SHARE = 10, 0.3
WATCHED_PAIRS = 16  # few: they are for the report, and a session is to stay small


@dataclass(frozen=True)
class State:
    """All that a session has learnt. A value: every step makes a new one."""

    layout: Layout
    adapted: Adapted
    memory: Any
    watched: SourceLike  # source-like pairs, for the report of methods that keep none
    batches: int = 0
    resets: int = 0
    ordinary_streak: int = 0  # ordinary batches in a row: from the first on the source answers

    @lazy_property
    def learnt(self) -> Params:
        """The adapted parameters by name, views of one vector: made once, for all answers."""
        return self.layout.split(self.adapted.values)

    @property
    def pairs(self) -> SourceLike:
        """The source-like pairs known so far."""
        return self.memory if isinstance(self.memory, SourceLike) else self.watched


@dataclass(frozen=True)
class BatchResult:
    """What one batch gave: the next state, the answer, and the report."""

    state: State
    answer: Forward
    shift: BatchStats


@dataclass(frozen=True)
class Adaptation:
    """An encoder, a method and settings: how a state becomes the next one."""

    encoder: Encoder
    method: Method
    settings: Settings
    source: Params
    matching: Matching | None = None

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        gallery: Searchable,
        method: Method,
        settings: Settings,
        matching: Matching | None = None,
    ) -> Self:
        """An adaptation of what the method adapts, the matcher's part included if it has one."""
        if settings.gather is not None and settings.gather < method.smallest_batch:
            raise BadInput(
                f"gather is {settings.gather}, but {method.name} learns from at least "
                f"{method.smallest_batch} queries at a time: gather more (gather=16)."
            )
        if settings.ordinary is not None:
            settings.ordinary.check_fits(encoder)
        source = dict(method.adapts(encoder, gallery))
        if matching is not None and method.adapts_matcher:
            source |= matching.matcher.own_params()
        source = {name: value.to(encoder.device) for name, value in source.items()}
        return cls(encoder, method, settings, source, matching)

    def fresh(self, gallery: Searchable) -> State:
        """The state before the first batch."""
        layout = Layout.of(self.source)
        watched = SourceLike.empty(gallery.centroids(1).to(self.encoder.device))
        return State(layout, self._start(layout), self._memory(gallery), watched)

    def outcome(self, state: State, batch: Batch, adapt: bool) -> BatchResult:
        """Adapt to one batch and answer it; what was learnt goes if it gives no finite vectors."""
        try:
            return self._outcome(state, batch, adapt)
        except (BadInput, RuntimeError):  # a method may choke on NaN before anybody looks for it
            if not self.sees_nonsense(state, batch):
                raise
        checked(self.seen_by_source(batch))
        reason = "not finite: what was learnt gives vectors that hold NaN or infinity"
        if self.settings.guard is None:
            raise BadInput(f"{reason}: call reset(), take a smaller lr, or set a guard.")
        warnings.warn(f"queryshift: {reason}", GuardWarning, stacklevel=4)
        outcome = self._outcome(self._restarted(state, batch.gallery), batch, adapt)
        return replace(outcome, shift=replace(outcome.shift, restart=reason))

    def sees_nonsense(self, state: State, batch: Batch) -> bool:
        """Whether the state gives vectors for these queries that are not finite."""
        try:
            vectors = batch.see(self.params(state), graph=False).vectors
        except (Error, RuntimeError):  # it gives none: what was raised before says why
            return False
        return not bool(torch.isfinite(vectors).all())

    def _outcome(self, state: State, batch: Batch, adapt: bool) -> BatchResult:
        if not (adapt and self.method.adapting and len(batch) >= self.method.smallest_batch):
            return self._reported(batch, state, self.see(state, batch))
        ordinary = self.settings.ordinary
        if ordinary is not None and ordinary.knows(self.seen_by_source(batch)):
            state, reason = self._rested(state, batch.gallery, ordinary.patience)
            return self._reported(batch, state, self.see(state, batch), restart=reason)
        if (
            state.ordinary_streak
        ):  # otherwise the same state: it knows its parameters by name already
            state = replace(state, ordinary_streak=0)
        after, first, last, found = self._stepped(state, batch)
        finite = torch.isfinite(after.adapted.values).all()
        if self.settings.score_from == "after" and bool(finite):
            last = self.see(after, batch)
        elif self.settings.score_from == "before":
            last = first
        if self.settings.guard is None:  # a GPU is given all its work before anybody waits for it
            outcome = self._reported(batch, after, last, found)
            if bool(finite):
                checked(first)
                return outcome
        checked(first)
        reason = None
        if not bool(finite):
            reason, after, last = "not finite: the update was dropped", state, first
        after, last, reason = self._guarded(after, batch, last, reason)
        return self._reported(batch, after, last, found, restart=reason)

    def see(self, state: State, batch: Batch, count: int = 0) -> Forward:
        """What the batch finds now, without adapting.

        So many hits are searched for before anybody waits for the vectors to be checked.
        """
        params = self.source if state.ordinary_streak else self.params(state)
        if params is self.source:
            forward = self.seen_by_source(batch)
        else:
            forward = fitting(batch.see(params, graph=False))
        answer = (
            forward if state.ordinary_streak else self.method.view(forward, state.memory).detached()
        )
        if count:
            answer.hits(count)
        checked(forward)
        return answer

    def seen_by_source(self, batch: Batch) -> Forward:
        """What the batch finds with the source's parameters, forward once."""
        if batch.source is None:
            batch.source = fitting(batch.see(self.source, graph=False))
        return batch.source

    def params(self, state: State) -> Params:
        """The parameters in force: the source's own at first, and always for those out of reach."""
        if state.adapted.updates == 0:
            return self.source
        return {**self.source, **state.learnt}

    def _stepped(
        self, state: State, batch: Batch
    ) -> tuple[State, Forward, Forward, Mapping[str, Tensor]]:
        """All steps of a batch: the state after, the first and last forward, the measures."""
        first: Forward | None = None
        found: list[Mapping[str, Tensor]] = []
        for step in range(self.settings.steps if self.source else 1):
            state, last, measured = self._step(state, batch, step)
            first = first or last
            found.append(measured)
        assert first is not None
        return state, first, last, _means(found)

    def _step(
        self, state: State, batch: Batch, step: int
    ) -> tuple[State, Forward, Mapping[str, Tensor]]:
        """One step, whose graph is gone before the next forward makes another."""
        seed = (self.settings.seed * SPREAD + state.batches * 64 + step) % 2**32
        step_view = StepView(batch, self.params(state), self.source, seed)
        forward = fitting(step_view.now) if step == 0 else step_view.now
        memory = self.method.observe(forward, state.memory, step)
        update = self._watched(step_view, self.method.gradient(step_view, memory), memory)
        after = self._after(state, update, memory, batch.gallery)
        return after, self.method.view(forward, memory).detached(), update.measures

    def _after(self, state: State, update: Update, memory: Any, gallery: Searchable) -> State:
        """The state after one step: the only place where parameters change."""
        memory = memory if update.memory is UNCHANGED else update.memory
        if update.restart:
            return replace(self._restarted(state, gallery), memory=memory)
        if update.gradient is None or self.method.rate == 0:
            return replace(state, memory=memory)
        slopes = update.gradient
        if not state.layout.shapes.keys() <= slopes.keys():  # some are out of reach
            if not slopes:
                raise unreached(self.encoder)
            if state.adapted.updates == 0:
                state = _narrowed(state, slopes)
            else:  # of these queries: others may reach them again
                slopes = {n: slopes.get(n, torch.zeros_like(v)) for n, v in state.learnt.items()}
        gradient = state.layout.flat(slopes)
        take_step = getattr(state.adapted, self.method.optimiser)
        adapted = take_step(gradient, self.method.rate * update.rate, self.method.weight_decay)
        return replace(state, adapted=adapted, memory=memory)

    def _watched(self, step_view: StepView, update: Update, memory: Any) -> Update:
        """The update with its drift and angles, if they are asked for and not known already."""
        wanted = self.settings.watch_angle and not update.measures
        if not wanted or step_view.at_source or update.gradient is None:
            return update
        prediction = refined(self.method.view(step_view.now, memory), NEIGHBOURS, TEMPERATURE)
        moved = drift(self.method.view(step_view.source, memory), prediction)
        (general,) = step_view.now.gradients(moved)
        degrees = angle(update.gradient, general)
        found = {"drift": moved.detach(), "domain_angle": degrees, "applied_angle": degrees}
        return replace(update, measures=found)

    def _rested(self, state: State, gallery: Searchable, patience: int) -> tuple[State, str | None]:
        """The state after one more ordinary batch, and why what was learnt is given up, if it is.

        What one shift taught would only be in the way of the next.
        """
        state = replace(state, ordinary_streak=state.ordinary_streak + 1)
        if state.ordinary_streak != patience:
            return state, None
        fresh = self._restarted(state, gallery)
        if state.adapted.updates == 0:  # no parameters were learnt, a memory perhaps
            return replace(fresh, resets=state.resets), None
        return fresh, f"the shift is over: {patience} batches of ordinary queries in a row"

    def _guarded(
        self, after: State, batch: Batch, last: Forward, reason: str | None
    ) -> tuple[State, Forward, str | None]:
        """State and answer that may stand, and what was wrong with those that may not."""
        if self.settings.guard is not None:
            source = self.seen_by_source(batch)
            unmoved = self.method.view(source, self._memory(batch.gallery))
            reason = reason or self.settings.guard.objection(last, unmoved)
            if reason is not None:
                after, last = self._restarted(after, batch.gallery), source
        if reason is not None:
            warnings.warn(f"queryshift: {reason}", GuardWarning, stacklevel=6)
        return after, last, reason

    def _reported(
        self,
        batch: Batch,
        state: State,
        forward: Forward,
        found: Mapping[str, Tensor] | None = None,
        restart: str | None = None,
    ) -> BatchResult:
        """The answer, the state with this batch counted, and what the session saw.

        `found` is what the steps measured, None if there were none.
        """
        answer, disagreement = forward, None
        if self.settings.mode == "shadow":
            answer = self.seen_by_source(batch)
            differs = answer.hits(1).positions != forward.hits(1).positions
            disagreement = float(differs.float().mean())
        ordinary, strangeness = self.settings.ordinary, None
        if ordinary is not None and batch.source is not None:
            strangeness = ordinary.strangeness(batch.source)
        state = replace(state, watched=self._watching(state, forward), batches=state.batches + 1)
        shift = BatchStats(
            batch=state.batches,
            queries=len(batch),
            adapted=found is not None,
            disagreement=disagreement,
            restart=restart,
            resets=state.resets,
            strangeness=strangeness,
            **measures(forward, state.pairs, self.method.unsure(forward), found or {}),
        )
        return BatchResult(state, reranked(answer), shift)

    def _watching(self, state: State, forward: Forward) -> SourceLike:
        """Source-like pairs for methods that keep none of their own."""
        kept = isinstance(state.memory, SourceLike)
        if kept or state.watched.batches >= WATCHED_BATCHES or len(forward) < 2:
            return state.watched
        pairs = state.watched if len(state.watched) else SourceLike.empty(forward.vectors)
        if pairs.queries.shape[1] != forward.vectors.shape[1]:  # a method's view may have its own
            return state.watched
        unsure = refined_entropies(forward)
        return pairs.with_batch(
            forward.vectors, forward.nearest, unsure, WATCHED_SHARE, WATCHED_PAIRS
        )

    def _memory(self, gallery: Searchable) -> Any:
        return self.method.start(gallery, self.encoder.device)

    def _start(self, layout: Layout) -> Adapted:
        return Adapted.fresh(layout.flat(self.source))

    def _restarted(self, state: State, gallery: Searchable) -> State:
        """Back to the source, with a fresh memory; the counts go on."""
        adapted, memory = self._start(state.layout), self._memory(gallery)
        return replace(state, adapted=adapted, memory=memory, resets=state.resets + 1)


def fitting(forward: Forward) -> Forward:
    """Refuse query vectors that are not of the gallery's dimension."""
    shape, expected = tuple(forward.vectors.shape), forward.gallery.dimension
    if len(shape) != 2 or shape[1] != expected:
        raise GalleryMismatch(
            f"query vectors have shape {shape}, the gallery has {expected} dimensions: was it "
            "built by another model?"
        )
    return forward


def checked(forward: Forward) -> Forward:
    """Refuse query vectors that cannot be searched with."""
    vectors = fitting(forward).vectors.detach()
    lengths = torch.linalg.vector_norm(vectors, dim=1).tolist()  # one wait says it all
    if all(abs(length - 1) <= UNIT_TOLERANCE for length in lengths):  # NaN is not
        return forward
    check_finite(vectors, "the vector of query")
    raise BadInput(
        f"query vectors have length {min(lengths):.3g} to {max(lengths):.3g}, "
        "expected unit length: normalise them in the encoder's forward()."
    )


def _narrowed(state: State, reached: Params) -> State:
    """The state without parameters that the forward never reaches."""
    values = state.learnt
    layout = Layout.of({name: values[name] for name in state.layout.shapes if name in reached})
    return replace(state, layout=layout, adapted=Adapted.fresh(layout.flat(values)))


def _means(found: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each measure over the steps that have it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: torch.stack([one[name] for one in found if name in one]).mean() for name in names}
