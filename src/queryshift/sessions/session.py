"""A session: one query stream being adapted to. Nothing else in the library changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Self

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadInput, GalleryMismatch, unknown
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import (
    Exclusion,
    Group,
    Missing,
    exclusions_left,
    known_exclusions,
)
from queryshift.methods.base import Method
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Batch
from queryshift.support.locks import RenewedRLock
from queryshift.support.priority import answering
from queryshift.support.torch_modes import adaptation_modes

from .background import Worker
from .batch_result import BatchResult
from .batch_stats import BatchStats
from .default import default_method, default_settings
from .describe import origins, table
from .events import Event, call_back
from .ledger import InForce, Ledger
from .parts import check_gallery, check_parts
from .queries import OnBad, grouped, prepared_batch, readable_batch
from .recall_warning import warn_of_recall
from .settings import Mode, Settings
from .state import State
from .state_file import Snapshot, read_state, write_state
from .step import Adaptation

AT_ONCE = 10  # hits that a GPU searches for before anything waits for the query's vector


class Session:
    """Answers queries and adapts to them, online and without labels.

    Args:
        encoder: turns queries into vectors; it never changes.
        gallery: the candidates.
        method: how to adapt, with its settings: `REST()`. Without one: `Steady()` with
            `hubs=Hubs()`, `guard=Guard()` and `choose=True` (docs/methods/steady.md); `Frozen()`
            where queries come as vectors.
        lr: learning rate; wins over the method's own.
        matcher: ranks the best hits anew: `matcher.over(items)`.
        on_batch: called with the `BatchStats` of each batch.
        on_event: called with each `Event`; events are also logged by the logger "queryshift".
        steps: updates per batch (3).
        score_from: the forward that answers: "last_forward", "before" or "after" the updates.
        gather: answer queries at once, and adapt when so many have gathered.
        worker: adapt to gathered queries in the background.
        chunk: queries per graph; bounds memory.
        depth: hits of a query that a search engine is asked for at once (100); later steps of the
            batch search among them.
        guard: bounds what queries can do to the session; None is the bare method (docs/guard.md).
        hubs: corrects answers for hubs, with any method: `Hubs()`.
        choose: the source answers batches that it answers as well: as it is where nine of ten
            first places are the same, corrected for hubs where it is as sure of its own.
        mode: "live", or "shadow": answers with the source model and adapts beside it.
        watch_angle: measure drift and gradient angles.
        seed: of what a method draws at random.
        history: batches whose statistics are kept (65,536).
        name: of the session, in log records and events.

    Examples:
        >>> import queryshift as qs
        >>> from queryshift.lab import tangram
        >>> model, scenes = qs.load("tangram"), tangram.scenes("test", 32)
        >>> gallery = qs.Gallery.build(model["text"], [tangram.captions(s)[0] for s in scenes])
        >>> session = qs.Session(model["image"], gallery, qs.REST(), guard=qs.Guard())
        >>> session.answer([scene.image() for scene in scenes]).top(1).ids[:3]
        [[0], [1], [2]]
        >>> session
        Session(rest, ImageEncoder, 32 candidates, live, 1 batch)
    """

    __slots__ = (
        "__weakref__",
        "_adaptation",
        "_changing",
        "_dropped",
        "_gathered",
        "_ledger",
        "_origins",
        "_worker",
        "on_batch",
        "on_event",
    )

    @adaptation_modes()
    def __init__(
        self,
        encoder: Encoder,
        gallery: Searchable,
        method: Method | None = None,
        *,
        lr: float | None = None,
        matcher: Matching | None = None,
        on_batch: Callable[[BatchStats], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
        **settings: Any,
    ) -> None:
        if method is None:
            method, settings = default_method(encoder), default_settings(settings)
        check_parts(encoder, gallery, method, matcher)
        warn_of_recall(gallery)
        names = [field.name for field in fields(Settings)]
        for name in settings:
            if name not in names:
                raise unknown("setting of a session", name, ["lr", "matcher", *names])
        self._origins: Mapping[str, str] = origins(method, encoder, lr)
        resolved = method.resolved(encoder, lr)
        self._adaptation = Adaptation.of(encoder, gallery, resolved, Settings(**settings), matcher)
        self._ledger = Ledger(self._adaptation.fresh(gallery), gallery, self.settings.history)
        self._gathered: list[tuple[Any, Exclusion]] = []
        self._dropped = 0
        self._changing = RenewedRLock()  # one change at a time: held for a whole update
        self._worker = Worker()
        self.on_batch, self.on_event = on_batch, on_event

    def answer(
        self,
        queries: Sequence[Any],
        adapt: bool = True,
        exclude: Sequence[Exclusion] | None = None,
        *,
        on_bad: OnBad = "raise",
        missing: Missing = "raise",
    ) -> Answer:
        """Adapt to a batch of queries, then answer it.

        Args:
            queries: items of the encoder's modality.
            adapt: whether to learn from them. Without it the state in force answers at once, even
                while another thread adapts.
            exclude: for each query, candidates to leave out of search and adaptation. All queries
                get equally many hits: no more than the one with the most exclusions has left.
            on_bad: "raise" refuses a batch with an item that cannot be read, "skip" answers the
                others; `Answer.skipped` says which were left out.
            missing: "raise" refuses ids in `exclude` that no candidate has, "ignore" passes over
                them: deleted products are normal.

        Returns:
            The answer; `.top(10).ids` are the best ten candidates of each query.
        """
        first = answering() if self.settings.worker else nullcontext()
        with first, adaptation_modes():
            if self.settings.worker:
                self._worker.check()
            gallery = self._ledger.now.gallery
            asked = known_exclusions(grouped(queries, exclude), gallery, missing)
            batch, group, skipped = readable_batch(self._adaptation, asked, gallery, on_bad)
            if self.settings.gather is not None and adapt and self.method.adapting:
                answer = self._answer_now(batch)
                self._gather(group)
            else:
                answer = self._advance(batch, adapt).answer
            answer.skipped = skipped
            return answer

    def wait(self) -> None:
        """Return when no update is running in the background; raise what went wrong in one."""
        self._worker.wait()  # without a lock, which an update needs to take effect
        self._worker.check()

    @adaptation_modes()
    def reset(self) -> None:
        """Forget everything: back to the source parameters, memory and optimiser empty."""
        with self._changing:
            gallery = self._ledger.now.gallery
            self._ledger.replace(InForce(self._adaptation.fresh(gallery), None, gallery), ())
            self._gathered = []

    def go_live(self) -> None:
        """Answer with the adapted model from the next batch on; what was learnt stays."""
        self._switch("live")

    def go_shadow(self) -> None:
        """Answer with the source model from the next batch on, and adapt beside it."""
        self._switch("shadow")

    def undo(self) -> None:
        """Return to the state before the last batch."""
        with self._changing:
            now, history = self._ledger.copy()
            if now.previous is None:
                raise BadInput("there is no batch to undo: none was answered since the last undo.")
            self._ledger.replace(InForce(now.previous, None, now.gallery), history[:-1])

    def restore(self, state: State, history: Sequence[BatchStats] = ()) -> None:
        """Put another state in the place of this one.

        Args:
            state: A state, as `session.state` gave it.
            history: The statistics that go with it.
        """
        if not isinstance(state, State):
            raise BadInput(
                f"got a {type(state).__name__} as state, expected one that session.state gave."
            )
        with self._changing:
            self._ledger.replace(InForce(state, None, self._ledger.now.gallery), history)

    def fork(self) -> Self:
        """Another session that starts from this one's state and goes its own way.

        Returns:
            A session of the same encoder, gallery, method and settings.
        """
        now, history = self._ledger.copy()
        values = {field.name: getattr(self.settings, field.name) for field in fields(Settings)}
        values |= {"on_batch": self.on_batch, "on_event": self.on_event}
        values |= {"matcher": self._adaptation.matching}
        twin = type(self)(self.encoder, now.gallery, self.method, **values)
        twin._ledger.replace(now, history)
        twin._origins, twin._gathered = self._origins, list(self._gathered)
        return twin

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> Any:
        raise BadInput(
            "a session cannot be pickled: save(path), then Session.load(path, encoder, gallery) "
            "where it is to go on."
        )

    def stats(self) -> BatchStats:
        """The statistics of the latest batch.

        Returns:
            Those that `history` has last; without a batch, an error.
        """
        if not self.history:
            raise BadInput("there are no statistics yet: answer a batch first.")
        return self.history[-1]

    def describe(self) -> str:
        """Print every setting in force with where it comes from.

        Returns:
            The table that was printed.
        """
        text = table(self)
        sys.stdout.write(text + "\n")
        return text

    def save(self, path: str | Path, history: bool = True) -> None:
        """Write the session, whole or not at all; queries still gathering are not part of it.

        Args:
            path: the file to write.
            history: whether the statistics of the batches so far are kept too.
        """
        write_state(path, self.snapshot(history))

    def snapshot(self, history: bool = True) -> Snapshot:
        """What `save` writes, as a value: taken in a moment, also while another thread adapts.

        Args:
            history: Whether the statistics of the batches so far are part of it.

        Returns:
            State, settings and history as they were in one moment.
        """
        now, batches = self._ledger.copy()
        return Snapshot(
            self.encoder,
            now.gallery,
            self._adaptation.matching,
            self.method,
            self._origins,
            self.settings,
            now.state,
            batches if history else None,
        )

    @classmethod
    @adaptation_modes()
    def load(
        cls,
        path: str | Path,
        encoder: Encoder,
        gallery: Searchable,
        method: Method | None = None,
        matcher: Matching | None = None,
        *,
        on_batch: Callable[[BatchStats], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
        **changes: Any,
    ) -> Self:
        """Take a stream up where `save` left it.

        Args:
            path: the file that `save` wrote.
            encoder: the encoder it was saved with.
            gallery: the candidates; they may have changed.
            method: needed where the method is one of your own.
            matcher: needed where the session had one.
            on_batch: called with the statistics of each batch.
            on_event: called with each event.
            changes: settings that may change: mode, guard, hubs, choose, gather, worker,
                chunk, depth, steps, lr, history, name.

        Returns:
            A session with the saved state and history.
        """
        check_parts(encoder, gallery, method or Method(), matcher)
        stored = read_state(path, encoder, method, matcher, changes)
        values = {field.name: getattr(stored.settings, field.name) for field in fields(Settings)}
        calls = {"on_batch": on_batch, "on_event": on_event}
        session = cls(encoder, gallery, stored.method, **{"matcher": matcher, **calls, **values})
        session._origins, stages = stored.origins, session.adaptation.stages
        session.restore(stored.state(session.state, gallery, stages), stored.history())
        return session

    @property
    def encoder(self) -> Encoder:
        """The encoder, which never changes."""
        return self._adaptation.encoder

    @property
    def method(self) -> Method:
        """The method, with learning rate and temperature filled in."""
        return self._adaptation.method

    @property
    def settings(self) -> Settings:
        """How the session runs."""
        return self._adaptation.settings

    @property
    def adaptation(self) -> Adaptation:
        """Encoder, method and settings: how a state becomes the next one."""
        return self._adaptation

    @property
    def state(self) -> State:
        """What has been learnt so far."""
        return self._ledger.now.state

    @property
    def params(self) -> Params:
        """The adapted parameters as they are now."""
        return dict(self.state.learnt)

    @property
    def history(self) -> list[BatchStats]:
        """The statistics of the batches so far, the latest last."""
        return self._ledger.history

    @property
    def dropped(self) -> int:
        """Updates in the background that never took effect."""
        return self._dropped

    @property
    def origins(self) -> Mapping[str, str]:
        """Where learning rate and temperature come from."""
        return self._origins

    @property
    def gallery(self) -> Searchable:
        """The candidates; may be replaced by others of the same dimension."""
        return self._ledger.now.gallery

    @gallery.setter
    @adaptation_modes()
    def gallery(self, gallery: Searchable) -> None:
        check_gallery(gallery)
        with self._changing:
            now, history = self._ledger.copy()
            if gallery.dimension != now.gallery.dimension:
                raise GalleryMismatch(
                    f"the new gallery has {gallery.dimension} dimensions, this session's vectors "
                    f"have {now.gallery.dimension}: was it built by another model?"
                )
            if self._adaptation.matching is not None:
                raise BadInput("a session with a matcher keeps its gallery: start another session.")
            warn_of_recall(gallery)
            if self._adaptation.ordinary is not None:
                self._adaptation.ordinary.check_fits(self.encoder, gallery)
            previous = None if now.previous is None else self._moved(now.previous, gallery)
            self._ledger.replace(
                InForce(self._moved(now.state, gallery), previous, gallery), history
            )
            self._gathered = exclusions_left(self._gathered, gallery)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except AttributeError:
            raise BadInput(
                f"got session.{name} = {shortened(value)}, which would do nothing: settings are "
                f"given when a session is made, Session(..., {name}=...), or to Session.load."
            ) from None

    def __repr__(self) -> str:
        batches, kind = self.state.batches, type(self.encoder).__name__
        named = f"{self.settings.name}: " if self.settings.name else ""
        return (
            f"Session({named}{self.method.name}, {kind}, {len(self.gallery):,} candidates, "
            f"{self.settings.mode}, {batches} {'batch' if batches == 1 else 'batches'})"
        )

    def _switch(self, mode: Mode) -> None:
        with self._changing:
            settings = replace(self.settings, mode=mode)
            self._adaptation = replace(self._adaptation, settings=settings)

    def _answer_now(self, batch: Batch) -> Answer:
        """The answer of the state in force, without statistics."""
        state, on_gpu = self._ledger.now.state, self.encoder.device.type == "cuda"
        try:
            return self._adaptation.answered(state, batch, AT_ONCE if on_gpu else 0)
        except (BadInput, RuntimeError):
            if not self._adaptation.gives_nonsense(state, batch):
                raise
            return self._advance(batch, adapt=False).answer  # a guard gives up what was learnt

    def _advance(self, batch: Batch, adapt: bool) -> BatchResult:
        """One batch through the state in force, which is replaced where it learnt."""
        with self._changing if adapt else nullcontext():
            state = self._ledger.now.state
            result = self._adaptation.advance(state, batch, adapt)
            _warn(result)
            self._commit(result, state, learns=adapt)
            return result

    def _gather(self, group: Group) -> None:
        """Keep queries; adapt to each group of them that is complete."""
        size = self.settings.gather or 1
        with self._ledger.lock if self.settings.worker else self._changing:
            waiting = [*self._gathered, *group]
            groups = [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)]
            if not self.settings.worker:
                self._adapt_in_turn(groups)
            self._gathered = waiting[len(groups) * size :]
        if self.settings.worker:
            for complete in groups:
                self._adapt_in_background(complete)

    def _adapt_in_turn(self, groups: Sequence[Group]) -> None:
        now, results = self._ledger.now, []
        state = now.state
        for group in groups:
            batch = prepared_batch(self._adaptation, group, now.gallery)
            results.append((self._adaptation.advance(state, batch, True), state))
            state = results[-1][0].state
        _warn(*(result for result, _ in results))
        for result, before in results:  # only now: a group that fails leaves the session as it was
            self._commit(result, before, learns=True)

    def _adapt_in_background(self, group: Group) -> None:
        """Adapt in the background, unless an update is running there: then drop the group."""
        if self._worker.busy:
            self._drop("an update was still running when another group was complete")
            return
        now = self._ledger.now

        def update() -> BatchResult:
            batch = prepared_batch(self._adaptation, group, now.gallery)
            return self._adaptation.advance(now.state, batch, True)

        def commit(result: BatchResult) -> None:
            self._worker.hand_over(result.state.learnt)
            with self._changing:
                if self._ledger.now.same_learning(now):
                    _warn(result)
                    self._commit(result, now.state, learns=True)
                else:
                    self._drop("the session was reset, undone, restored or moved under an update")

        self._worker.start(update, commit, self.encoder.device)

    def _commit(self, result: BatchResult, before: State, learns: bool) -> None:
        """Put the result's state in force, then tell what happened."""
        stats = self._ledger.enter(result, before, learns)
        for event in result.events:
            self._notify(replace(event, batch=stats.batch))
        if self.on_batch is not None:
            call_back(self.on_batch, stats)

    def _drop(self, reason: str) -> None:
        """Count an update in the background that did not take effect."""
        self._dropped += 1
        self._notify(Event("dropped", reason, self.state.batches))

    def _notify(self, event: Event) -> None:
        """Log an event and call back."""
        event = replace(event, time=time.time(), session=self.settings.name)
        event.log()
        if self.on_event is not None:
            call_back(self.on_event, event)

    def _moved(self, state: State, gallery: Searchable) -> State:
        """The state with what method and stages remember of another gallery's candidates gone."""
        stages = {
            stage.name: stage.moved(state.stages.get(stage.name), gallery)
            for stage in self._adaptation.stages
        }
        return replace(state, memory=self.method.moved(state.memory, gallery), stages=stages)


def _warn(*results: BatchResult) -> None:
    """Warn of what went wrong, before it takes effect: raised as an error, it changes nothing."""
    for result in results:
        for event in result.events:
            event.warn()
