"""Learning from one batch: its steps, each a forward, a gradient and an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import unreached
from queryshift.galleries import Searchable
from queryshift.methods.base import UNCHANGED, Update
from queryshift.methods.decoupled import drift
from queryshift.methods.gradients import angle
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined
from queryshift.retrieval.step_view import StepView
from queryshift.retrieval.vector_checks import fitting

from .adaptation import Adaptation
from .answering import answering_forward
from .batch_result import Proposal
from .batch_stats import NEIGHBOURS, TEMPERATURE
from .state import State

SEED_STRIDE = 2_654_435_761  # sets seeds far apart within the 32 bits that a generator takes


def learn(
    adaptation: Adaptation, state: State, batch: Batch, view: StepView | None = None
) -> Proposal:
    """All steps of a batch; `view` is the first one's, if it was made already."""
    view = step_view(adaptation, state, batch, 0) if view is None else view
    seen, (after, first, measures_of_step) = state, _step(adaptation, state, view, 0)
    del view  # and its graph
    last, measured = first, [measures_of_step]
    for step in range(1, adaptation.settings.steps if adaptation.source else 1):
        seen, view_of_step = after, step_view(adaptation, after, batch, step)
        after, last, measures_of_step = _step(adaptation, after, view_of_step, step)
        measured.append(measures_of_step)
    if adaptation.settings.score_from == "before":
        seen, last = state, first
    elif adaptation.settings.score_from == "after" and after.finite:
        seen, last = after, answering_forward(adaptation, after, batch)
    return Proposal(after, last, first, _means(measured), seen=seen)


def learn_from_some(adaptation: Adaptation, state: State, batch: Batch, rows: Tensor) -> Proposal:
    """As `learn`, from the queries that `rows` (B,) says; what they taught answers the others."""
    proposal, others = learn(adaptation, state, batch.taking(rows)), batch.taking(~rows)
    answered = answering_forward(adaptation, proposal.seen or state, others)
    forward = batch.together(rows, proposal.forward, answered)
    if answered.gallery is others.gallery:  # no method's own: an engine's is searched for all
        forward = forward.moved(forward.vectors, batch.gallery)
    return replace(proposal, forward=forward)


def step_view(adaptation: Adaptation, state: State, batch: Batch, step: int) -> StepView:
    """A batch as one of its steps sees it."""
    seed = (adaptation.settings.seed * SEED_STRIDE + state.batches * 64 + step) % 2**32
    return StepView(batch, adaptation.params(state), adaptation.source, seed)


def _step(
    adaptation: Adaptation, state: State, view: StepView, step: int
) -> tuple[State, Forward, Mapping[str, Tensor]]:
    """One step, whose graph is gone before the next forward makes another."""
    forward = fitting(view.now) if step == 0 else view.now
    memory = adaptation.method.observe(forward, state.memory, step)
    update = _with_angles(adaptation, view, adaptation.method.gradient(view, memory), memory)
    after = _updated(adaptation, state, update, memory, view.batch.gallery)
    return after, adaptation.method.view(forward, memory).detached(), update.measures


def _updated(
    adaptation: Adaptation, state: State, update: Update, memory: Any, gallery: Searchable
) -> State:
    """The state after one update: the only place where parameters change."""
    memory = memory if update.memory is UNCHANGED else update.memory
    if update.restart:
        return replace(adaptation.restarted(state, gallery), memory=memory)
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
    adapted = state.adapted.updated(
        adaptation.method.optimiser,
        state.layout.flat(slopes),
        adaptation.method.rate * update.rate,
        adaptation.method.weight_decay,
    )
    return replace(state, adapted=adapted, memory=memory)


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
