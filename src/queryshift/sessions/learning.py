"""Learning from one batch: its steps, each a forward, a gradient and an update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import unreached
from queryshift.methods.base import UNCHANGED, Update
from queryshift.methods.decoupled import drift
from queryshift.methods.gradients import angle
from queryshift.methods.optimiser import Adapted
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined
from queryshift.retrieval.step_view import StepView
from queryshift.retrieval.vector_checks import fitting

from .adaptation import Adaptation
from .answering import answering_forward
from .batch_result import Proposal
from .batch_stats import NEIGHBOURS, TEMPERATURE
from .policy import FIRST_RATE, MOVE, PROBES, gallery_spread, step_rows
from .state import State

SEED_STRIDE = 2_654_435_761  # sets seeds far apart within the 32 bits that a generator takes


def learn(
    adaptation: Adaptation,
    state: State,
    batch: Batch,
    rows: Tensor | None = None,
    pace: float = 1.0,
    views: list[StepView] | None = None,
) -> Proposal:
    """All steps of a batch.

    Args:
        adaptation: Encoder, method and settings.
        state: The state before the batch.
        batch: The queries.
        rows: Those (B,) that may teach; None: all.
        pace: Factor on the learning rate.
        views: Holds the first step's view of the whole batch, if it was made already.
    """
    steps = adaptation.settings.steps if adaptation.source else 1
    share = max(1 / steps, adaptation.method.step_share(state.memory))
    before = after = state
    forwards, measured = list[Forward](), list[Mapping[str, Tensor]]()
    for step in range(steps):
        some = step_rows(rows, len(batch), share, step, steps)
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
    return _proposal(
        adaptation, batch, (state, before, after), (forwards[0], forwards[-1]), _means(measured)
    )


def _proposal(
    adaptation: Adaptation,
    batch: Batch,
    states: tuple[State, State, State],
    forwards: tuple[Forward, Forward],
    measures: Mapping[str, Tensor],
) -> Proposal:
    """The state after the steps, with the forward that `score_from` says, of the whole batch."""
    (start, before, after), (first, last) = states, forwards
    answers = {"before": (start, first), "last_forward": (before, last), "after": (after, None)}
    seen, forward = answers[adaptation.settings.score_from]
    if forward is None and not after.finite:  # only here: it waits for a GPU
        seen, forward = before, last
    if forward is None or len(forward) < len(batch):
        forward = answering_forward(adaptation, seen, batch)
    return Proposal(after, forward, first, measures)


def step_view(adaptation: Adaptation, state: State, batch: Batch, step: int) -> StepView:
    """A batch as one of its steps sees it."""
    seed = (adaptation.settings.seed * SEED_STRIDE + state.batches * 64 + step) % 2**32
    return StepView(batch, adaptation.params(state), adaptation.source, seed)


def _step(
    adaptation: Adaptation, state: State, view: StepView, step: int, pace: float
) -> tuple[State, Forward, Mapping[str, Tensor]]:
    """One step, whose graph is gone before the next forward makes another."""
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
    slopes = update.gradient
    if not state.layout.shapes.keys() <= slopes.keys():  # some are out of reach
        if not slopes:
            raise unreached(adaptation.encoder)
        if state.adapted.updates == 0:
            state = state.narrowed(slopes)
        else:  # of these queries: others may reach them again
            slopes = {n: slopes.get(n, torch.zeros_like(v)) for n, v in state.learnt.items()}
    flat = state.layout.flat(slopes)
    rate = adaptation.method.rate
    if adaptation.finds_rate:
        rate = state.rate or _rate_of_stream(adaptation, state, view, flat)
        state = replace(state, rate=rate)
    adapted = _moved(adaptation, state, flat, rate * pace * update.rate)
    return replace(state, adapted=adapted, memory=memory)


def _moved(adaptation: Adaptation, state: State, slopes: Tensor, rate: float | Tensor) -> Adapted:
    method = adaptation.method
    return state.adapted.updated(method.optimiser, slopes, rate, method.weight_decay)


@torch.no_grad()
def _rate_of_stream(adaptation: Adaptation, state: State, view: StepView, slopes: Tensor) -> float:
    """The rate at which this step would move the query vectors by the way that the policy sets."""
    now = view.now.vectors.detach()
    wanted = MOVE * gallery_spread(view.batch.gallery, now)
    rate = FIRST_RATE
    for _ in range(PROBES):
        tried = replace(state, adapted=_moved(adaptation, state, slopes, rate))
        moved = view.batch.forward(adaptation.params(tried), graph=False).vectors
        way = torch.linalg.vector_norm(moved - now, dim=1).mean()
        factor = float(wanted / way.clamp(min=torch.finfo(way.dtype).tiny))
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
