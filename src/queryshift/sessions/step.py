"""One batch, from a state to the next: prepare, learn, decide, commit. A pure function."""

from __future__ import annotations

from dataclasses import replace

from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.retrieval.batch import Batch
from queryshift.retrieval.vector_checks import checked, fitting
from queryshift.support.alone import working

from .adaptation import Adaptation
from .answering import answering_forward, gives_nonsense, weight_of
from .batch_result import BatchResult, Proposal
from .events import Event
from .guard import Guard
from .learning import learn, step_view
from .make_result import batch_result
from .policy import look
from .state import State

NONSENSE = "not finite: what was learnt gives vectors that hold NaN or infinity"
DROPPED = "not finite: the update was dropped"


@working()
def advance(adaptation: Adaptation, state: State, batch: Batch, adapt: bool) -> BatchResult:
    """Adapt to one batch, if it is to be adapted to, and answer it."""
    event = None
    try:
        proposal = _proposed(adaptation, state, batch, adapt)
        if adaptation.settings.guard is None:  # a GPU gets all its work before anything waits
            result = batch_result(adaptation, proposal, batch, adapt)
        settled, event = _settled(adaptation, state, proposal, batch)
        if settled is proposal and adaptation.settings.guard is None:
            return result
    except (BadInput, RuntimeError):  # a method may fail on NaN before it is looked for
        if not gives_nonsense(adaptation, state, batch):
            raise
        event = _nonsense(adaptation, batch)
        settled = _proposed(adaptation, adaptation.restarted(state, batch.gallery), batch, adapt)
    return batch_result(adaptation, settled, batch, adapt, event)


def _proposed(adaptation: Adaptation, state: State, batch: Batch, adapt: bool) -> Proposal:
    """What the batch leads to: only answered, recognised as ordinary, or learnt from."""
    guard, ordinary = adaptation.settings.guard, adaptation.ordinary
    learns = adaptation.method.adapting and len(batch) >= adaptation.method.smallest_batch
    if not adapt or (guard is None and not learns):
        return _answered(adaptation, state, batch)
    if learns and ordinary is not None and ordinary.knows(adaptation.source_forward(batch)):
        state = replace(state, ordinary_streak=state.ordinary_streak + 1)
        return Proposal(state, adaptation.source_forward(batch), ordinary=True, weight=0.0)
    if state.ordinary_streak and learns:
        state = replace(state, ordinary_streak=0)
    if guard is None:
        return learn(adaptation, state, batch)
    return _guarded(adaptation, state, batch, guard, learns)


def _answered(
    adaptation: Adaptation, state: State, batch: Batch, doubted: float | None = None
) -> Proposal:
    """The batch as the state in force answers it."""
    share = weight_of(adaptation, state, batch, doubted)
    return Proposal(state, answering_forward(adaptation, state, batch, share), weight=share)


def _guarded(
    adaptation: Adaptation, state: State, batch: Batch, guard: Guard, learns: bool
) -> Proposal:
    """As without a guard, by the policy: as much as the source is in doubt, from new queries."""
    if not learns and not any(stage.learns for stage in adaptation.stages):
        return _answered(adaptation, state, batch)
    views = [step_view(adaptation, state, batch, 0)]  # a list: the first step's graph can go
    if learns and views[0].at_source:
        fitting(views[0].now)  # serves as the source's forward and as the first step's
    seen = look(adaptation.source_forward(batch), state.chances, guard)
    state = replace(state, chances=seen.chances)
    if not learns or not seen.teaches(adaptation.method.smallest_batch):
        return replace(_answered(adaptation, state, batch, seen.doubt), rows=seen.rows)
    proposal = learn(adaptation, state, batch, seen.rows, seen.doubt, views)
    share = weight_of(adaptation, proposal.state, batch, seen.doubt)
    return replace(proposal, weight=share, rows=seen.rows)


def _settled(
    adaptation: Adaptation, before: State, proposal: Proposal, batch: Batch
) -> tuple[Proposal, Event | None]:
    """The proposal, or what takes its place, and why: every reset is decided here."""
    if proposal.ordinary:
        return _after_ordinary(adaptation, proposal, batch.gallery)
    if proposal.first is None:
        return proposal, None
    checked(proposal.first)
    if proposal.state.finite:
        event = _objection(adaptation, proposal, batch)
    else:
        event = Event("not_finite", DROPPED)
        kept, forward = replace(before, ordinary_streak=0), proposal.first
        if len(forward) < len(batch):  # the first step saw a part of it
            forward = answering_forward(adaptation, before, batch)
        proposal = replace(proposal, state=kept, forward=forward)
    if event is None or adaptation.settings.guard is None:
        return proposal, event
    state = adaptation.restarted(proposal.state, batch.gallery)
    forward = adaptation.source_forward(batch)
    return replace(proposal, state=state, forward=forward, weight=1.0), event


def _objection(adaptation: Adaptation, proposal: Proposal, batch: Batch) -> Event | None:
    """The guard's objection to a forward, on scores that no stage has corrected."""
    guard = adaptation.settings.guard
    if guard is None:
        return None
    fresh = adaptation.method.start(batch.gallery, adaptation.encoder.device)
    unmoved = adaptation.method.view(adaptation.source_forward(batch), fresh)
    reason = guard.objection(proposal.forward, unmoved)
    return None if reason is None else Event("guard", reason)


def _after_ordinary(
    adaptation: Adaptation, proposal: Proposal, gallery: Searchable
) -> tuple[Proposal, Event | None]:
    """The proposal after one more ordinary batch.

    So many in a row end a shift: what it taught would be in the way of the next one.
    """
    state, ordinary = proposal.state, adaptation.ordinary
    if ordinary is None or state.ordinary_streak != ordinary.patience:
        return proposal, None
    fresh = adaptation.restarted(state, gallery)
    if state.adapted.updates == 0:  # no parameters were learnt, a memory perhaps
        return replace(proposal, state=replace(fresh, resets=state.resets)), None
    reason = f"the shift is over: {ordinary.patience} batches of ordinary queries in a row"
    return replace(proposal, state=fresh), Event("ordinary", reason)


def _nonsense(adaptation: Adaptation, batch: Batch) -> Event:
    """The event of a state that gives vectors of NaN; without a guard, an error."""
    checked(adaptation.source_forward(batch))
    if adaptation.settings.guard is None:
        raise BadInput(f"{NONSENSE}: call reset(), take a smaller lr, or set a guard.")
    return Event("not_finite", NONSENSE)
