"""One batch, from a state to the next: prepare, learn, decide, commit. A pure function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import unreached
from queryshift.errors import BadInput
from queryshift.methods.base import UNCHANGED, StepView, Update
from queryshift.methods.decoupled import drift
from queryshift.methods.gradients import angle
from queryshift.methods.optimiser import Adapted
from queryshift.retrieval.forward import UNIT_TOLERANCE, Batch, Forward, checked, fitting
from queryshift.retrieval.refinement import refined
from queryshift.support.threads import working

from . import policy
from .batch_stats import NEIGHBOURS, TEMPERATURE, BatchResult, Proposal, batch_result
from .events import Event
from .guard import Guard
from .state import Adaptation, State

NOT_FINITE = "not finite: the adapted model gives vectors that hold NaN or infinity"
DROPPED = "not finite: the update was dropped"
FORGOTTEN = "not finite: the update gave NaN or infinity, the session was reset"
SEED_STRIDE = 2_654_435_761  # keeps seeds far apart within the 32 bits that a generator takes


@working()
def advance(adaptation: Adaptation, state: State, batch: Batch, adapt: bool) -> BatchResult:
    """Learn from a prepared batch if `adapt` says so, decide who answers it, and answer."""
    event = None
    try:
        proposal = _propose(adaptation, state, batch, adapt)
        if adaptation.settings.guard is None:  # give a GPU all its work before anything waits
            result = batch_result(adaptation, proposal, batch, adapt)
        decided, event = _decide(adaptation, state, proposal, batch)
        if event is None and adaptation.settings.guard is None:
            return result
    except (BadInput, RuntimeError):  # a method may fail on NaN before anyone looks for it
        if policy.is_finite(adaptation, state, batch):
            raise
        event = _not_finite(adaptation, batch)
        decided = _propose(adaptation, adaptation.restarted(state, batch.gallery), batch, adapt)
    return batch_result(adaptation, decided, batch, adapt, event)


def _propose(adaptation: Adaptation, state: State, batch: Batch, adapt: bool) -> Proposal:
    """Answer the batch, and learn from it unless it is too small or looks normal."""
    guard, reference = adaptation.settings.guard, adaptation.reference
    learns = adaptation.method.adapting and len(batch) >= adaptation.method.smallest_batch
    if not adapt or (guard is None and not learns):
        return _answer_only(adaptation, state, batch)
    if learns and reference is not None and reference.knows(adaptation.source_forward(batch)):
        state = replace(state, reference_streak=state.reference_streak + 1)
        return Proposal(state, adaptation.source_forward(batch), unshifted=True, weight=0.0)
    if state.reference_streak and learns:
        state = replace(state, reference_streak=0)
    if guard is None:
        return learn(adaptation, state, batch)
    return _propose_guarded(adaptation, state, batch, guard, learns)


def _answer_only(
    adaptation: Adaptation, state: State, batch: Batch, doubted: float | None = None
) -> Proposal:
    """Answer by the state in force."""
    share = policy.weight_of(adaptation, state, batch, doubted)
    return Proposal(state, policy.answering_forward(adaptation, state, batch, share), weight=share)


def _propose_guarded(
    adaptation: Adaptation, state: State, batch: Batch, guard: Guard, learns: bool
) -> Proposal:
    """Assess the batch by the source model, then learn as much as the policy says."""
    if not learns and adaptation.settings.hubs is None:
        return _answer_only(adaptation, state, batch)
    views = [step_view(adaptation, state, batch, 0)]  # a list: the first step's graph can go
    if learns and views[0].at_source:
        fitting(views[0].now)  # serves as the source's forward and as the first step's
    asked = learns or state.adapted.updates > 0  # else the source model answers alone
    seen = policy.assess(adaptation.source_forward(batch), state, guard, asked)
    state = replace(state, chances=seen.chances, found=seen.found)
    if not learns or not seen.teaches(adaptation.method.smallest_batch):
        return replace(_answer_only(adaptation, state, batch, seen.doubt), rows=seen.rows)
    proposal = learn(adaptation, state, batch, seen.rows, seen.doubt, views)
    share = policy.weight_of(adaptation, proposal.state, batch, seen.doubt)
    return replace(proposal, weight=share, rows=seen.rows)


def _decide(
    adaptation: Adaptation, before: State, proposal: Proposal, batch: Batch
) -> tuple[Proposal, Event | None]:
    """Accept the proposal, or replace it and say why.

    It may be reset by the guard, because of numbers that are not finite, or because the shift is
    over. A method may also have restarted by itself (`Update.restart`).
    """
    if proposal.unshifted:
        return _after_unshifted(adaptation, proposal, batch)
    if proposal.first is None:
        return proposal, None
    sound = proposal.sound or _sound(proposal.state, proposal.first)
    if not sound:
        checked(proposal.first)
    guard, event = adaptation.settings.guard, None
    if not sound and not proposal.state.finite:
        event = Event("not_finite", DROPPED if guard is None else FORGOTTEN)
        kept, forward = replace(before, reference_streak=0), proposal.first
        if len(forward) < len(batch):  # the first step saw only a part of it
            forward = policy.answering_forward(adaptation, before, batch)
        proposal = replace(proposal, state=kept, forward=forward)
    elif guard is not None:
        fresh = adaptation.method.start(batch.gallery, adaptation.encoder.device)
        source = adaptation.method.view(adaptation.source_forward(batch), fresh)
        if reason := policy.objection(guard, proposal.forward, source):
            event = Event("guard", reason)
    if event is None and proposal.state.resets > before.resets:
        told = f"{adaptation.method.name} reset the session by itself"
        return proposal, Event("restart", told)
    if event is None or guard is None:
        return proposal, event
    state = adaptation.restarted(proposal.state, batch.gallery)
    forward = adaptation.source_forward(batch)
    return replace(proposal, state=state, forward=forward, weight=1.0), event


def _after_unshifted(
    adaptation: Adaptation, proposal: Proposal, batch: Batch
) -> tuple[Proposal, Event | None]:
    """Reset if enough normal batches came in a row: the next shift may be another one."""
    state, reference = proposal.state, adaptation.reference
    if reference is None or state.reference_streak != reference.patience:
        return proposal, None
    fresh = adaptation.restarted(state, batch.gallery)
    if state.adapted.updates == 0:  # no parameters were learnt, perhaps a memory
        return replace(proposal, state=replace(fresh, resets=state.resets)), None
    reason = (
        f"the shift is over: {reference.patience} batches in a row look like the reference queries"
    )
    return replace(proposal, state=fresh), Event("ordinary", reason)


def _not_finite(adaptation: Adaptation, batch: Batch) -> Event:
    """The event of a state that gives vectors with NaN; without a guard, an error."""
    checked(adaptation.source_forward(batch))
    if adaptation.settings.guard is None:
        raise BadInput(f"{NOT_FINITE}: call reset(), use a smaller lr, or set a guard.")
    return Event("not_finite", NOT_FINITE)


def learn(
    adaptation: Adaptation,
    state: State,
    batch: Batch,
    rows: Tensor | None = None,
    pace: float = 1.0,
    views: list[StepView] | None = None,
) -> Proposal:
    """Take all steps of a batch.

    Args:
        adaptation: Encoder, method and settings.
        state: The state before the batch.
        batch: The queries.
        rows: The queries (B,) to learn from; None: all.
        pace: Factor on the learning rate.
        views: Holds the first step's view of the whole batch, if it exists already.
    """
    steps = adaptation.settings.steps if adaptation.source else 1
    share = max(1 / steps, adaptation.method.step_share(state.memory))
    before = after = state
    forwards, measured = list[Forward](), list[Mapping[str, Tensor]]()
    for step in range(steps):
        some = policy.step_rows(rows, len(batch), share, step, steps)
        before = after
        if some is None:
            view = views.pop() if views else step_view(adaptation, before, batch, step)
        else:
            if views:
                views.clear()  # and its graph
            view = step_view(adaptation, before, batch.taking(some), step)
        after, last, measures = _step(adaptation, before, view, step, pace)
        del view  # and its graph
        forwards = [*forwards[:1], last]  # the first and the last
        measured.append(measures)
    first, last = forwards[0], forwards[-1]
    answers = {"before": (state, first), "last_forward": (before, last), "after": (after, None)}
    seen, forward = answers[adaptation.settings.score_from]
    proposal = Proposal(after, last, first, _means(measured))
    if forward is None and (now := _forward_after(adaptation, after, first, batch)) is not None:
        return replace(proposal, forward=now, sound=True)
    if forward is None and not after.finite:
        seen, forward = before, last
    if forward is None or len(forward) < len(batch):
        forward = policy.answering_forward(adaptation, seen, batch)
    return replace(proposal, forward=forward)


def _forward_after(
    adaptation: Adaptation, after: State, first: Forward, batch: Batch
) -> Forward | None:
    """The forward of a state that was just learnt; None if there is none or anything is wrong.

    A GPU gets the work before anyone waits to see whether the state is finite.
    """
    params = adaptation.params(after)
    if params is adaptation.source:
        return None
    try:
        forward = fitting(batch.forward(params, graph=False))
        viewed = adaptation.method.view(forward, after.memory).detached()
        return viewed if _sound(after, first, forward) else None
    except (BadInput, RuntimeError):
        return None


def _sound(state: State, *forwards: Forward) -> bool:
    """Whether a state is finite and all vectors have unit length; one wait for a GPU."""
    vectors = [fitting(forward).vectors.detach() for forward in forwards]
    lengths = torch.cat([torch.linalg.vector_norm(one, dim=1).double() for one in vectors])
    alike = (lengths - 1).abs() <= UNIT_TOLERANCE  # NaN is not
    return bool(torch.isfinite(state.adapted.values).all() & alike.all())


def step_view(adaptation: Adaptation, state: State, batch: Batch, step: int) -> StepView:
    """A batch as one of its steps sees it."""
    seed = (adaptation.settings.seed * SEED_STRIDE + state.batches * 64 + step) % 2**32
    return StepView(batch, adaptation.params(state), adaptation.source, seed)


def _step(
    adaptation: Adaptation, state: State, view: StepView, step: int, pace: float
) -> tuple[State, Forward, Mapping[str, Tensor]]:
    """One step, whose graph is freed before the next forward makes another."""
    forward = fitting(view.now) if step == 0 else view.now
    memory = adaptation.method.observe(forward, state.memory, step)
    update = _with_angles(adaptation, view, adaptation.method.gradient(view, memory), memory)
    after = _updated(adaptation, state, update, memory, view, pace)
    return after, adaptation.method.view(forward, memory).detached(), update.measures


def _updated(
    adaptation: Adaptation, state: State, update: Update, memory: Any, view: StepView, pace: float
) -> State:
    """The state after one update: the only place where parameters change."""
    memory = memory if update.memory is UNCHANGED else update.memory
    if update.restart:
        return replace(adaptation.restarted(state, view.batch.gallery), memory=memory)
    if update.gradient is None or adaptation.method.rate == 0:
        return replace(state, memory=memory)
    gradient = update.gradient
    if not state.layout.shapes.keys() <= gradient.keys():  # it does not reach all parameters
        if not gradient:
            raise unreached(adaptation.encoder)
        if state.adapted.updates == 0:
            state = state.narrowed(gradient)
        else:  # not with these queries; others may reach them again
            gradient = {n: gradient.get(n, torch.zeros_like(v)) for n, v in state.learnt.items()}
    flat = state.layout.flat(gradient)
    rate = adaptation.method.rate
    if adaptation.finds_rate:
        rate = state.rate or _rate_of_stream(adaptation, state, view, flat)
        state = replace(state, rate=rate)
    adapted = _moved(adaptation, state, flat, rate * pace * update.rate)
    return replace(state, adapted=adapted, memory=memory)


def _moved(adaptation: Adaptation, state: State, gradient: Tensor, rate: float | Tensor) -> Adapted:
    method = adaptation.method
    return state.adapted.updated(method.optimiser, gradient, rate, method.weight_decay)


@torch.no_grad()
def _rate_of_stream(
    adaptation: Adaptation, state: State, view: StepView, gradient: Tensor
) -> float:
    """The rate at which this step moves the query vectors as far as the policy wants."""
    now = view.now.vectors.detach()
    wanted = policy.MOVE * policy.gallery_spread(view.batch.gallery, now)
    rate = policy.FIRST_RATE
    for _ in range(policy.PROBES):
        tried = replace(state, adapted=_moved(adaptation, state, gradient, rate))
        moved = view.batch.forward(adaptation.params(tried), graph=False).vectors
        distance = torch.linalg.vector_norm(moved - now, dim=1).mean()
        factor = float(wanted / distance.clamp(min=torch.finfo(distance.dtype).tiny))
        rate *= min(10.0, max(0.1, factor)) if math.isfinite(factor) else 0.1
    return rate


def _with_angles(adaptation: Adaptation, view: StepView, update: Update, memory: Any) -> Update:
    """The update with its drift and angles, if they are asked for and not measured already."""
    wanted = adaptation.settings.watch_angle and not update.measures
    if not wanted or view.at_source or update.gradient is None:
        return update
    prediction = refined(adaptation.method.view(view.now, memory), NEIGHBOURS, TEMPERATURE)
    moved = drift(adaptation.method.view(view.source, memory), prediction)
    (general,) = view.now.gradients(moved)
    degrees = angle(update.gradient, general)
    measured = {"drift": moved.detach(), "domain_angle": degrees, "applied_angle": degrees}
    return replace(update, measures=measured)


def _means(measured: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each measure over the steps that have it."""
    names = dict.fromkeys(name for step in measured for name in step)
    return {
        name: torch.stack([step[name] for step in measured if name in step]).mean()
        for name in names
    }
