"""One query stream: it reads queries, and holds the state in force, its history and updates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

from queryshift.encoders.prepared import check_several
from queryshift.encoders.vectors import Vectors, is_one_vector
from queryshift.errors import BadInput, BadItem, GalleryMismatch, unknown
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import (
    Exclusion,
    Group,
    Missing,
    excluded_pairs,
    exclusions_by_query,
    exclusions_left,
    known_exclusions,
)
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Batch
from queryshift.support.threads import RenewedLock, RenewedRLock, working

from .background import Worker
from .batch_stats import BatchResult, BatchStats
from .events import Event, call_back
from .inputs import warn_of_recall
from .policy import answer_now, is_finite
from .session_settings import Mode
from .state import Adaptation, State
from .step import advance

OnBad = Literal["raise", "skip"]
AT_ONCE = 10  # hits that a GPU searches for before anything waits for the query's vector


@dataclass(frozen=True)
class InForce:
    """What answers now. A value: read once, its parts belong together."""

    state: State
    previous: State | None  # before the last batch, for `undo`
    gallery: Searchable

    def same_learning(self, other: InForce) -> bool:
        """Whether nothing was learnt, reset, undone or moved between the two."""
        left, right = self.state, other.state
        return (
            left.adapted is right.adapted
            and left.memory is right.memory
            and left.reference_streak == right.reference_streak
            and self.gallery is other.gallery
        )


@dataclass(frozen=True)
class Asked:
    """Queries as they were read, and what was in force then."""

    now: InForce
    batch: Batch
    group: Group  # the same queries with their exclusions
    skipped: tuple[BadItem, ...]  # unreadable ones, left out of both


class Updater:
    """One query stream: the state in force, and one change at a time.

    Reading `now` needs no lock: it is one reference to a value. `lock` is held for moments, to
    replace `now` and `history` together; `_changing` is held for a whole update.

    Args:
        adaptation: Encoder, method and settings.
        gallery: The candidates.
        on_batch: Called with the statistics of each batch.
        on_event: Called with each event.
    """

    def __init__(
        self,
        adaptation: Adaptation,
        gallery: Searchable,
        on_batch: Callable[[BatchStats], object] | None,
        on_event: Callable[[Event], object] | None,
    ) -> None:
        self.adaptation = adaptation
        self.now = InForce(adaptation.fresh(gallery), None, gallery)
        self.history: list[BatchStats] = []
        self.gathered: list[tuple[Any, Exclusion]] = []
        self.dropped = 0  # updates in the background that never took effect
        self.worker = Worker()
        self.on_batch, self.on_event = on_batch, on_event
        self.lock, self._changing = RenewedLock(), RenewedRLock()

    def read(self, queries: Any, exclude: Any, missing: Missing, on_bad: OnBad) -> Asked:
        """Read queries; the arguments are those of `Session.answer`."""
        now = self.now
        if isinstance(self.adaptation.encoder, Vectors) and is_one_vector(queries):
            queries = [queries]
        asked = known_exclusions(grouped(queries, exclude), now.gallery, missing)
        if on_bad not in ("raise", "skip"):
            raise unknown("choice of on_bad", on_bad, ("raise", "skip"))
        kept, places = list(asked), list(range(len(asked)))
        skipped: list[BadItem] = []
        while True:
            try:
                batch = prepared_batch(self.adaptation, kept, now.gallery)
                return Asked(now, batch, kept, tuple(skipped))
            except BadItem as bad:
                if on_bad == "raise" or len(kept) == 1:
                    raise
                skipped.append(BadItem(places.pop(bad.index), bad.reason, bad.kind))
                del kept[bad.index]

    def advance(self, asked: Asked, adapt: bool) -> Answer:
        """Answer a batch by the state in force, and replace the state if `adapt` says so.

        Nothing is learnt from a batch that was read for a gallery that is no longer in force.
        """
        with self._changing if adapt else nullcontext():
            now = self._over_same(asked)
            learns = adapt and now.gallery is self.now.gallery
            result = advance(self.adaptation, now.state, asked.batch, learns)
            _warn(result)
            self._commit(result, now.state, learns)
            return result.answer

    def answer_now(self, asked: Asked) -> Answer:
        """The answer of the state in force, without statistics."""
        state, on_gpu = self._over_same(asked).state, self.adaptation.encoder.device.type == "cuda"
        try:
            return answer_now(self.adaptation, state, asked.batch, AT_ONCE if on_gpu else 0)
        except (BadInput, RuntimeError):
            if is_finite(self.adaptation, state, asked.batch):
                raise
            return self.advance(asked, adapt=False)  # the guard resets the session

    def gather(self, asked: Asked) -> None:
        """Keep queries; adapt to each group of them that is complete."""
        size, worker = self.adaptation.settings.gather or 1, self.adaptation.settings.worker
        with self.lock if worker else self._changing:
            gallery, group = self.now.gallery, asked.group
            if asked.now.gallery is not gallery:
                group = exclusions_left(group, gallery)
            waiting = [*self.gathered, *group]
            groups = [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)]
            if not worker:
                self._adapt_in_turn(groups)
            self.gathered = waiting[len(groups) * size :]
        if worker:
            for complete in groups:
                self._adapt_in_background(complete)

    def reset(self) -> None:
        """Return to the source model, with an empty history and nothing gathered."""
        with self._changing:
            gallery = self.now.gallery
            self.replace(InForce(self.adaptation.fresh(gallery), None, gallery), ())
            self.gathered = []

    def undo(self) -> None:
        """Return to the state before the last batch."""
        with self._changing:
            now, history = self.copy()
            if now.previous is None:
                raise BadInput("there is no batch to undo: none was answered since the last undo.")
            self.replace(InForce(now.previous, None, now.gallery), history[:-1])

    def restore(self, state: State, history: Sequence[BatchStats]) -> None:
        """Replace state and history by others that were learnt over the same gallery."""
        with self._changing:
            gallery = self.now.gallery
            try:
                if state.hubs is not None:
                    state.hubs.check(gallery)
            except ValueError as error:
                raise BadInput(
                    f"the state was learnt over another gallery ({error}): set that gallery first."
                ) from error
            self.replace(InForce(state, None, gallery), history)

    def switch(self, mode: Mode) -> None:
        """Answer in this mode from the next batch on."""
        with self._changing:
            settings = replace(self.adaptation.settings, mode=mode)
            self.adaptation = replace(self.adaptation, settings=settings)

    def move(self, gallery: Searchable) -> None:
        """Go on with another gallery, and forget what depends on the old one's candidates."""
        with self._changing:
            adaptation = self.adaptation
            now, history = self.copy()
            if gallery.dimension != now.gallery.dimension:
                raise GalleryMismatch(
                    f"the new gallery has {gallery.dimension} dimensions, this session's vectors "
                    f"have {now.gallery.dimension}: was it built by another model?"
                )
            if adaptation.matching is not None:
                raise BadInput("a session with a matcher keeps its gallery: start another session.")
            warn_of_recall(gallery)
            if adaptation.reference is not None:
                adaptation.reference.check_fits(adaptation.encoder, gallery)
            previous = None if now.previous is None else adaptation.moved(now.previous, gallery)
            moved = adaptation.moved(now.state, gallery)
            self.replace(InForce(moved, previous, gallery), history)
            with self.lock:
                self.gathered = exclusions_left(self.gathered, gallery)

    def replace(self, now: InForce, history: Sequence[BatchStats]) -> None:
        """Put another state in force, with its history."""
        with self.lock:
            self.now, self.history = now, list(history)

    def copy(self) -> tuple[InForce, list[BatchStats]]:
        """What is in force and its history, at one moment."""
        with self.lock:
            return self.now, list(self.history)

    def fork(self) -> Updater:
        """Another one with the same state, history and gathered queries."""
        now, history = self.copy()
        twin = Updater(self.adaptation, now.gallery, self.on_batch, self.on_event)
        twin.now, twin.history, twin.gathered = now, history, list(self.gathered)
        return twin

    def _over_same(self, asked: Asked) -> InForce:
        """What is in force, or was when queries were read if the gallery was replaced since."""
        now = self.now
        return now if now.gallery is asked.now.gallery else asked.now

    def _adapt_in_turn(self, groups: Sequence[Group]) -> None:
        now, results = self.now, []
        state = now.state
        for group in groups:
            batch = prepared_batch(self.adaptation, group, now.gallery)
            results.append((advance(self.adaptation, state, batch, True), state))
            state = results[-1][0].state
        _warn(*(result for result, _ in results))
        for result, before in results:  # only now: a group that fails leaves the session as it was
            self._commit(result, before, learns=True)

    def _adapt_in_background(self, group: Group) -> None:
        """Adapt in the background; drop the group if an update is still running there."""
        if self.worker.busy:
            self._drop("an update was still running when another group was complete")
            return
        now = self.now

        def update() -> BatchResult:
            batch = prepared_batch(self.adaptation, group, now.gallery)
            return advance(self.adaptation, now.state, batch, True)

        def commit(result: BatchResult) -> None:
            self.worker.hand_over(result.state.learnt)
            with self._changing:
                if self.now.same_learning(now):
                    _warn(result)
                    self._commit(result, now.state, learns=True)
                else:
                    self._drop("the session was reset, undone, restored or moved meanwhile")

        self.worker.start(update, commit, self.adaptation.encoder.device)

    def _commit(self, result: BatchResult, before: State, learns: bool) -> None:
        """Put the result's state in force, counted after batches answered meanwhile; then notify.

        A batch that was only answered changes nothing but the count if another thread has learnt
        since `before`.
        """
        with self.lock:
            state, now = result.state, self.now
            if not learns and now.state is not before:
                state = now.state
            count = now.state.batches + 1
            state = state if state.batches == count else replace(state, batches=count)
            stats = replace(result.stats, batch=count, time=time.time())
            self.now = replace(now, state=state, previous=now.state)
            self.history.append(stats)
            del self.history[: -self.adaptation.settings.history]
        for event in result.events:
            self._notify(replace(event, batch=count))
        if self.on_batch is not None:
            call_back(self.on_batch, stats)

    def _drop(self, reason: str) -> None:
        """Count an update in the background that did not take effect."""
        self.dropped += 1
        self._notify(Event("dropped", reason, self.now.state.batches))

    def _notify(self, event: Event) -> None:
        """Log an event and call back."""
        event = replace(event, time=time.time(), session=self.adaptation.settings.name)
        event.log()
        if self.on_event is not None:
            call_back(self.on_event, event)


def grouped(queries: Any, exclude: Any) -> list[tuple[Any, Exclusion]]:
    """Each query with its exclusions."""
    check_several(queries)
    items = list(queries)
    ids = exclusions_by_query(exclude, len(items))
    return list(zip(items, [None] * len(items) if ids is None else ids, strict=True))


@working()
def prepared_batch(adaptation: Adaptation, group: Group, gallery: Searchable) -> Batch:
    """Prepare queries with their exclusions on the encoder's device."""
    _check_device(adaptation)
    settings, exclusions = adaptation.settings, [ids for _, ids in group]
    excluded = None
    if any(ids is not None for ids in exclusions):
        excluded = excluded_pairs(exclusions, len(group), gallery)
    return Batch(
        adaptation.encoder,
        gallery,
        adaptation.encoder.ready([item for item, _ in group]),
        excluded,
        settings.chunk,
        adaptation.matching,
        adaptation.depth,
        whole=settings.hubs is not None,
    )


def _check_device(adaptation: Adaptation) -> None:
    """Refuse an encoder that was moved to another device: the learnt parameters were not."""
    first, device = next(iter(adaptation.source.values()), None), adaptation.encoder.device
    if first is not None and first.device != device:
        raise BadInput(
            f"the encoder is on {device}, but was on {first.device} when the session was made: "
            "save it, then Session.load it for the encoder as it is."
        )


def _warn(*results: BatchResult) -> None:
    """Warn before anything takes effect: a warning raised as an error changes nothing."""
    for result in results:
        for event in result.events:
            event.warn()
