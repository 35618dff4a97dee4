"""From a state and a batch to the next state, an answer and events: a pure function, all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params, unreached
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadInput, Error
from queryshift.galleries import Searchable
from queryshift.methods.base import UNCHANGED, Method, Update
from queryshift.methods.decoupled import drift
from queryshift.methods.gradients import angle
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Batch, Forward, StepView, checked, fitting
from queryshift.retrieval.refinement import refined
from queryshift.retrieval.reranking import MatcherStage, Ranking, Stage, ranked

from .batch_result import BatchResult, Proposal
from .batch_stats import NEIGHBOURS, TEMPERATURE, BatchStats, measures, refined_entropies
from .choice import agree, surer
from .events import Event
from .guard import Guard, lead
from .ordinary import Ordinary
from .settings import Settings
from .state import State
from .teaching import lesson, no_queries

SEED_STRIDE = 2_654_435_761  # sets seeds far apart within the 32 bits that a generator takes
WATCHED_BATCHES, WATCHED_SHARE = 10, 0.3
WATCHED_PAIRS = 16  # few: they are for statistics, and a session is to stay small
NONSENSE = "not finite: what was learnt gives vectors that hold NaN or infinity"
DROPPED = "not finite: the update was dropped"


@dataclass(frozen=True)
class Adaptation:
    """An encoder, a method and settings: how a state becomes the next one."""

    encoder: Encoder
    method: Method
    settings: Settings
    source: Params
    matching: Matching | None = None
    stages: tuple[Stage, ...] = ()
    ordinary: Ordinary | None = None  # what ordinary queries look like, where a guard knows

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
        ordinary = None if settings.guard is None else settings.guard.ordinary
        if ordinary is not None:
            ordinary.check_fits(encoder, gallery)
        source = dict(method.adapts(encoder, gallery))
        if matching is not None and method.adapts_matcher:
            source |= matching.matcher.own_params()
        device = encoder.device
        source = {name: value.to(device) for name, value in source.items()}
        hubs: tuple[Stage, ...] = () if settings.hubs is None else (settings.hubs,)
        stages = hubs if matching is None else (*hubs, MatcherStage())
        return cls(encoder, method, settings, source, matching, stages, ordinary)

    @property
    def depth(self) -> int:
        """Hits to ask an engine for at once: no fewer than hubs or the matcher rank anew."""
        corrected = 0 if self.settings.hubs is None else self.settings.hubs.depth
        matched = 0 if self.matching is None else self.matching.matcher.rerank
        return max(self.settings.depth, corrected, matched)

    def fresh(self, gallery: Searchable) -> State:
        """The state before the first batch."""
        layout, device = Layout.of(self.source), self.encoder.device
        return State(
            layout=layout,
            adapted=Adapted.fresh(layout.flat(self.source)),
            memory=self.method.start(gallery, device),
            watched=SourceLike.empty(gallery.centroids(1).to(device)),
            recent=no_queries(device),
            stages={stage.name: stage.start(gallery, device) for stage in self.stages},
        )

    def advance(self, state: State, batch: Batch, adapt: bool) -> BatchResult:
        """Adapt to one batch, if it is to be adapted to, and answer it."""
        event = None
        try:
            proposal = self._proposed(state, batch, adapt)
            if self.settings.guard is None:  # a GPU gets all its work before anything waits for it
                result = self._result(proposal, batch, adapt)
            settled, event = self._settled(state, proposal, batch)
            if settled is proposal and self.settings.guard is None:
                return result
        except (BadInput, RuntimeError):  # a method may fail on NaN before it is looked for
            if not self.gives_nonsense(state, batch):
                raise
            event = self._nonsense(batch)
            settled = self._proposed(self._restarted(state, batch.gallery), batch, adapt)
        return self._result(settled, batch, adapt, event)

    def answered(self, state: State, batch: Batch, count: int) -> Answer:
        """The answer to a batch without statistics; `count` hits are searched for at once."""

        def answer() -> Answer:
            by_source = self.by_source(state, batch)
            forward = checked(self.forward(state, batch, count, by_source))
            return self._answer(state, forward, batch, by_source)

        if self.settings.mode == "live":
            return answer()
        plain = checked(self.source_forward(batch))
        return Answer(plain, self.ranking(plain, state, True), adapted=lambda: answer().adapted)

    def forward(
        self, state: State, batch: Batch, count: int = 0, by_source: bool = False
    ) -> Forward:
        """The forward that answers a batch now, without adapting.

        `count` hits are searched for before the vectors are checked, which waits for a GPU.
        """
        params = self.source if by_source else self.params(state)
        if params is self.source:
            forward = self.source_forward(batch)
        else:
            forward = fitting(batch.forward(params, graph=False))
        viewed = forward
        if not by_source:
            viewed = self.method.view(forward, state.memory).detached()
        if count:
            viewed.hits(count)
        checked(forward)
        return viewed

    def by_source(self, state: State, batch: Batch) -> bool:
        """Whether the source answers queries better: the guard knows them, or it is surer of them.

        A few queries are taken for what the batch before them was.
        """
        guard = self.settings.guard
        if guard is None or not self.judges(state, len(batch)):
            return self.answered_by_source(state)
        if self.ordinary is not None:
            return self.ordinary.knows(self.source_forward(batch))
        return lead(self.source_forward(batch)) > guard.surer * state.lead

    def answered_by_source(self, state: State) -> bool:
        """Whether the source answered the latest batch, since the guard knew it or was surer."""
        return state.ordinary_streak > 0 or (state.by_source and self.settings.guard is not None)

    def judges(self, state: State, size: int) -> bool:
        """Whether so many queries are judged by themselves."""
        guard = self.settings.guard
        return guard is not None and state.adapted.updates > 0 and size >= guard.smallest_batch

    def source_forward(self, batch: Batch) -> Forward:
        """The forward through the source's parameters, computed once per batch."""
        return fitting(batch.source_forward(self.source))

    def gives_nonsense(self, state: State, batch: Batch) -> bool:
        """Whether the state gives vectors for these queries that are not finite."""
        try:
            vectors = batch.forward(self.params(state), graph=False).vectors
        except (Error, RuntimeError):  # it gives none: what was raised before says why
            return False
        return not bool(torch.isfinite(vectors).all())

    def params(self, state: State) -> Params:
        """The parameters in force: the source's own at first, and always for those out of reach."""
        if state.adapted.updates == 0:
            return self.source
        return {**self.source, **state.layout.split(state.adapted.values)}

    def _proposed(self, state: State, batch: Batch, adapt: bool) -> Proposal:
        """What the batch leads to: only answered, recognised as ordinary, or learnt from."""
        guard, ordinary = self.settings.guard, self.ordinary
        learns = self.method.adapting and len(batch) >= self.method.smallest_batch
        if not adapt or (guard is None and not learns):
            return self._only_answered(state, batch)
        if learns and ordinary is not None and ordinary.knows(self.source_forward(batch)):
            state = replace(state, ordinary_streak=state.ordinary_streak + 1)
            forward = self.forward(state, batch, by_source=True)
            return Proposal(state, forward, ordinary=True, by_source=True)
        if state.ordinary_streak and learns:
            state = replace(state, ordinary_streak=0)
        if guard is None:
            return self._learnt(state, batch)
        return self._guarded(state, batch, guard, learns)

    def _only_answered(self, state: State, batch: Batch) -> Proposal:
        by_source = self.by_source(state, batch)
        forward = self.forward(state, batch, by_source=by_source)
        return Proposal(state, forward, by_source=by_source)

    def _guarded(self, state: State, batch: Batch, guard: Guard, learns: bool) -> Proposal:
        """As without a guard, from the queries that may teach the method and the stages."""
        if not learns and not any(stage.learns for stage in self.stages):
            return self._only_answered(state, batch)
        views = [self._view(state, batch, 0)]  # a list, so that the first step's graph can go
        if learns and views[0].at_source:
            fitting(views[0].now)  # serves as the source's forward and as the first step's
        source = self.source_forward(batch)
        taught = lesson(source.vectors, state.recent, batch.gallery, guard.spread, guard.repeats)
        state = replace(state, recent=taught.recent)
        if not learns or int(taught.rows.sum()) < self.method.smallest_batch:
            return replace(self._only_answered(state, batch), rows=taught.rows)
        by_source = self.by_source(state, batch)
        if taught.whole:
            proposal = self._learnt(state, batch, views.pop())
        else:
            views.clear()
            proposal = self._learnt(state, batch.taking(taught.rows))
            forward = self.forward(proposal.seen or state, batch)
            proposal = replace(proposal, forward=forward)
        after = replace(proposal.state, by_source=by_source, lead=guard.led(state.lead, source))
        if guard.anchor and _finite(after):
            after = self._anchored(after, guard.anchor)
        return replace(proposal, state=after, by_source=by_source, rows=taught.rows)

    def _anchored(self, state: State, share: float) -> State:
        """The state with its parameters this share of the way back to the source."""
        source = state.layout.flat(self.source)
        values = torch.lerp(state.adapted.values, source, share)
        return replace(state, adapted=replace(state.adapted, values=values))

    def _learnt(self, state: State, batch: Batch, view: StepView | None = None) -> Proposal:
        """All steps of a batch; `view` is the first one's, if it was made already."""
        view = self._view(state, batch, 0) if view is None else view
        seen, (after, first, measures_of_step) = state, self._step(state, view, 0)
        del view  # and its graph
        last, measured = first, [measures_of_step]
        for step in range(1, self.settings.steps if self.source else 1):
            seen, view_of_step = after, self._view(after, batch, step)
            after, last, measures_of_step = self._step(after, view_of_step, step)
            measured.append(measures_of_step)
        if self.settings.score_from == "before":
            seen, last = state, first
        elif self.settings.score_from == "after" and _finite(after):
            seen, last = after, self.forward(after, batch)
        return Proposal(after, last, first, _means(measured), seen=seen)

    def _view(self, state: State, batch: Batch, step: int) -> StepView:
        """A batch as one of its steps sees it."""
        seed = (self.settings.seed * SEED_STRIDE + state.batches * 64 + step) % 2**32
        return StepView(batch, self.params(state), self.source, seed)

    def _step(
        self, state: State, view: StepView, step: int
    ) -> tuple[State, Forward, Mapping[str, Tensor]]:
        """One step, whose graph is gone before the next forward makes another."""
        forward = fitting(view.now) if step == 0 else view.now
        memory = self.method.observe(forward, state.memory, step)
        update = self._with_angles(view, self.method.gradient(view, memory), memory)
        after = self._updated(state, update, memory, view.batch.gallery)
        return after, self.method.view(forward, memory).detached(), update.measures

    def _updated(self, state: State, update: Update, memory: Any, gallery: Searchable) -> State:
        """The state after one update: the only place where parameters change."""
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
                state = state.narrowed(slopes)
            else:  # of these queries: others may reach them again
                slopes = {n: slopes.get(n, torch.zeros_like(v)) for n, v in state.learnt.items()}
        adapted = state.adapted.updated(
            self.method.optimiser,
            state.layout.flat(slopes),
            self.method.rate * update.rate,
            self.method.weight_decay,
        )
        return replace(state, adapted=adapted, memory=memory)

    def _with_angles(self, view: StepView, update: Update, memory: Any) -> Update:
        """The update with its drift and angles, if they are asked for and not measured already."""
        wanted = self.settings.watch_angle and not update.measures
        if not wanted or view.at_source or update.gradient is None:
            return update
        prediction = refined(self.method.view(view.now, memory), NEIGHBOURS, TEMPERATURE)
        moved = drift(self.method.view(view.source, memory), prediction)
        (general,) = view.now.gradients(moved)
        degrees = angle(update.gradient, general)
        measured = {"drift": moved.detach(), "domain_angle": degrees, "applied_angle": degrees}
        return replace(update, measures=measured)

    def _settled(
        self, before: State, proposal: Proposal, batch: Batch
    ) -> tuple[Proposal, Event | None]:
        """The proposal, or what takes its place, and why: every reset is decided here."""
        if proposal.ordinary:
            return self._after_ordinary(proposal, batch.gallery)
        if proposal.first is None:
            return proposal, None
        checked(proposal.first)
        if _finite(proposal.state):
            event = self._objection(proposal, batch)
        else:
            event = Event("not_finite", DROPPED)
            kept = replace(before, ordinary_streak=0)
            proposal = replace(proposal, state=kept, forward=proposal.first)
        if event is None or self.settings.guard is None:
            return proposal, event
        state = self._restarted(proposal.state, batch.gallery)
        return replace(proposal, state=state, forward=self.source_forward(batch)), event

    def _objection(self, proposal: Proposal, batch: Batch) -> Event | None:
        """The guard's objection to a forward, on scores that no stage has corrected."""
        guard = self.settings.guard
        if guard is None:
            return None
        fresh = self.method.start(batch.gallery, self.encoder.device)
        unmoved = self.method.view(self.source_forward(batch), fresh)
        reason = guard.objection(proposal.forward, unmoved)
        return None if reason is None else Event("guard", reason)

    def _after_ordinary(
        self, proposal: Proposal, gallery: Searchable
    ) -> tuple[Proposal, Event | None]:
        """The proposal after one more ordinary batch.

        So many in a row end a shift: what it taught would be in the way of the next one.
        """
        state, ordinary = proposal.state, self.ordinary
        if ordinary is None or state.ordinary_streak != ordinary.patience:
            return proposal, None
        fresh = self._restarted(state, gallery)
        if state.adapted.updates == 0:  # no parameters were learnt, a memory perhaps
            return replace(proposal, state=replace(fresh, resets=state.resets)), None
        reason = f"the shift is over: {ordinary.patience} batches of ordinary queries in a row"
        return replace(proposal, state=fresh), Event("ordinary", reason)

    def _nonsense(self, batch: Batch) -> Event:
        """The event of a state that gives vectors of NaN; without a guard, an error."""
        checked(self.source_forward(batch))
        if self.settings.guard is None:
            raise BadInput(f"{NONSENSE}: call reset(), take a smaller lr, or set a guard.")
        return Event("not_finite", NONSENSE)

    def _restarted(self, state: State, gallery: Searchable) -> State:
        """Back to the source, with fresh memories; the counts go on."""
        device = self.encoder.device
        return replace(
            state,
            adapted=Adapted.fresh(state.layout.flat(self.source)),
            memory=self.method.start(gallery, device),
            by_source=False,
            lead=0.0,
            stages={stage.name: stage.start(gallery, device) for stage in self.stages},
            resets=state.resets + 1,
        )

    def _result(
        self, proposal: Proposal, batch: Batch, adapt: bool, event: Event | None = None
    ) -> BatchResult:
        """The answer, the state with this batch counted, and the batch's statistics."""
        by_source, state = proposal.by_source, proposal.state
        forward = self._answering(proposal, batch)
        state = replace(
            state,
            watched=self._watched(state, forward),
            batches=state.batches + 1,
            stages=self._remembered(proposal, forward) if adapt else state.stages,
        )
        ordinary, strangeness = self.ordinary, None
        if ordinary is not None and batch.source is not None:
            strangeness = ordinary.strangeness(batch.source)
        answer = self._answer(state, forward, batch, by_source)
        if self.settings.choose and proposal.first is not None and not by_source:
            answer = self._unless_alike(answer, batch, state)
        pairs = state.memory if isinstance(state.memory, SourceLike) else state.watched
        stats = BatchStats(
            batch=state.batches,
            queries=len(batch),
            adapted=proposal.first is not None,
            disagreement=self._disagreement(state, forward, batch, by_source),
            restart=None if event is None else event.reason,
            resets=state.resets,
            strangeness=strangeness,
            **measures(forward, pairs, self.method.unsure(forward), proposal.measures),
        )
        return BatchResult(state, answer, stats, () if event is None else (event,))

    def _answering(self, proposal: Proposal, batch: Batch) -> Forward:
        """The forward that answers: the proposal's, or the source's where that is as sure."""
        if proposal.by_source:
            return self.source_forward(batch)
        if proposal.first is None or not self.settings.choose:
            return proposal.forward
        source = self.source_forward(batch)
        return proposal.forward if surer(proposal.forward, source) else source

    def _unless_alike(self, answer: Answer, batch: Batch, state: State) -> Answer:
        """The answer, or the source's as it is where nearly all first places are the same."""
        source = self.source_forward(batch)
        if self.settings.mode == "shadow" or not agree(answer.ranking, source):
            return answer
        return Answer(source, self.ranking(source, state, by_source=True))

    def _answer(
        self, state: State, forward: Forward, batch: Batch, by_source: bool = False
    ) -> Answer:
        """The ranked answer of a forward; in shadow mode the source's, this one beside it."""

        def source() -> Answer:
            plain = checked(self.source_forward(batch))
            return Answer(plain, self.ranking(plain, state, by_source=True))

        ranking = self.ranking(forward, state, by_source)
        adapted = Answer(forward, ranking, source=source)
        if self.settings.mode != "shadow":
            return adapted
        plain = self.source_forward(batch)
        return Answer(plain, self.ranking(plain, state, by_source=True), adapted=adapted)

    def ranking(self, forward: Forward, state: State, by_source: bool) -> Ranking:
        """The order after all re-ranking stages; the source's goes without those that learn."""
        stages = [stage for stage in self.stages if not (by_source and stage.learns)]
        return ranked(forward, stages, state.stages)

    def _disagreement(
        self, state: State, forward: Forward, batch: Batch, by_source: bool
    ) -> float | None:
        """In shadow mode, the share of first places (before a matcher) unlike the source's."""
        if self.settings.mode != "shadow":
            return None
        learning = [one for one in self.stages if one.learns and not by_source]
        adapted = ranked(forward, learning, state.stages).hits(1).positions
        return float((self.source_forward(batch).hits(1).positions != adapted).float().mean())

    def _remembered(self, proposal: Proposal, forward: Forward) -> Mapping[str, Any]:
        """What the re-ranking stages remember after this batch: nothing of what the source knew."""
        state, rows = proposal.state, proposal.rows
        if proposal.by_source or (rows is not None and not bool(rows.any())):
            return state.stages
        if rows is not None and not bool(rows.all()):
            forward = forward.taking(rows)
        return {
            stage.name: stage.observe(forward, state.stages.get(stage.name))
            for stage in self.stages
        }

    def _watched(self, state: State, forward: Forward) -> SourceLike:
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


def _finite(state: State) -> bool:
    return bool(torch.isfinite(state.adapted.values).all())


def _means(measured: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each measure over the steps that have it."""
    names = dict.fromkeys(name for step in measured for name in step)
    return {
        name: torch.stack([step[name] for step in measured if name in step]).mean()
        for name in names
    }
