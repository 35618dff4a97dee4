"""A session: one query stream being adapted to. Nothing else in the library changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Literal, Never, Self

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import Exclusion, Missing, known_exclusions
from queryshift.methods.base import Method
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.support.priority import answering
from queryshift.support.torch_modes import adaptation_modes

from .batch_result import BatchStats
from .describe import found, origins, table
from .events import Event
from .guard import Guard
from .inputs import Candidates, OnBad, as_batch, as_gallery, check_parts, grouped, readable_batch
from .policy import default_method, default_settings
from .session_settings import LEFT_OPEN, SETTINGS, Mode, ScoreFrom, Settings, given
from .state import Adaptation, State
from .state_file import Snapshot, read_state, write_state
from .updater import Updater


class Session:
    """Answers queries and adapts to them, online and without labels.

    Args:
        encoder: turns queries into vectors; it never changes.
        gallery: the candidates; an array or a tensor of vectors (candidates, dimensions) too, whose
            rows are then the ids.
        method: how to adapt, with its settings: `REST()`. Without one: `InfoMax()` with
            `hubs=Hubs()` and `guard=Guard()` (docs/guard.md); `Frozen()` where queries come as
            vectors.
        lr: learning rate; wins over the method's own.
        matcher: ranks the best hits anew: `matcher.over(items)`.
        on_batch: called with the `BatchStats` of each batch.
        on_event: called with each `Event`; events are also logged by the logger "queryshift".
        steps: updates per batch (3).
        score_from: the forward that answers: "last_forward", "before" or "after" the updates. By
            default "after" where no method is named, else "last_forward".
        gather: answer queries at once, and adapt when so many have gathered.
        worker: adapt to gathered queries in the background.
        chunk: queries per graph; bounds memory.
        depth: hits of a query that a search engine is asked for at once (100); later steps of the
            batch search among them.
        guard: bounds what queries can do to the session; None is the bare method (docs/guard.md).
        hubs: corrects answers for hubs, with any method: `Hubs()`. By default where neither a
            method is named nor the guard is None.
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

    __slots__ = ("__weakref__", "_origins", "_updater")

    @adaptation_modes()
    def __init__(
        self,
        encoder: Encoder,
        gallery: Candidates,
        method: Method | None = None,
        *,
        lr: float | None = None,
        matcher: Matching | None = None,
        on_batch: Callable[[BatchStats], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
        steps: int = 3,
        score_from: ScoreFrom | Literal["default"] = "default",
        gather: int | None = None,
        worker: bool = False,
        chunk: int | None = None,
        depth: int = 100,
        guard: Guard | None = Guard(),  # noqa: B008  a value that never changes
        hubs: Hubs | Literal["default"] | None = "default",
        mode: Mode = "live",
        watch_angle: bool = False,
        seed: int = 0,
        history: int = 65_536,
        name: str | None = None,
        **others: Never,
    ) -> None:
        settings = given(locals())
        gallery, chosen = as_gallery(gallery), set[str]()
        if method is None:
            chosen = {"method", *LEFT_OPEN} - settings.keys()
            method, settings = default_method(encoder), default_settings(settings)
        check_parts(encoder, gallery, method, matcher)
        self._origins: Mapping[str, str] = origins(method, encoder, lr, chosen)
        resolved = method.resolved(encoder, lr)
        adaptation = Adaptation.of(
            encoder, gallery, resolved, Settings(**settings), matcher, found(self._origins)
        )
        self._updater = Updater(adaptation, gallery, on_batch, on_event)

    def answer(
        self,
        queries: Iterable[Any],
        adapt: bool = True,
        exclude: Sequence[Exclusion] | None = None,
        *,
        on_bad: OnBad = "raise",
        missing: Missing = "raise",
    ) -> Answer:
        """Adapt to a batch of queries, then answer it.

        Args:
            queries: items of the encoder's modality; over `Vectors` also a single vector.
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
        if not isinstance(adapt, bool):
            raise BadInput(f"adapt is {shortened(adapt)}, expected true or false.")
        updater = self._updater
        first = answering() if self.settings.worker else nullcontext()
        with first, adaptation_modes():
            if self.settings.worker:
                updater.worker.check()
            gallery = self.gallery
            items = grouped(as_batch(self.encoder, queries), exclude)
            asked = known_exclusions(items, gallery, missing)
            batch, group, skipped = readable_batch(self.adaptation, asked, gallery, on_bad)
            if self.settings.gather is not None and adapt and self.method.adapting:
                answer = updater.answer_now(batch)
                updater.gather(group)
            else:
                answer = updater.advance(batch, adapt)
            answer.skipped = skipped
            return answer

    def wait(self) -> None:
        """Return when no update is running in the background; raise what went wrong in one."""
        self._updater.worker.wait()  # without a lock, which an update needs to take effect
        self._updater.worker.check()

    @adaptation_modes()
    def reset(self) -> None:
        """Forget everything: the session is as new, with the source parameters and no memory.

        With `hubs` it still corrects each batch by the batch's own queries, as a new session does;
        `answer.source` and `go_shadow` give what the source model says.
        """
        self._updater.reset()

    def go_live(self) -> None:
        """Answer with the adapted model from the next batch on; what was learnt stays."""
        self._updater.switch("live")

    def go_shadow(self) -> None:
        """Answer with the source model from the next batch on, and adapt beside it."""
        self._updater.switch("shadow")

    def undo(self) -> None:
        """Return to the state before the last batch."""
        self._updater.undo()

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
        self._updater.restore(state, history)

    def fork(self) -> Self:
        """Another session that starts from this one's state and goes its own way.

        Returns:
            A session of the same encoder, gallery, method and settings.
        """
        now, history = self._updater.ledger.copy()
        values: dict[str, Any] = {name: getattr(self.settings, name) for name in SETTINGS}
        values |= {"on_batch": self.on_batch, "on_event": self.on_event}
        values |= {"matcher": self.adaptation.matching}
        twin = type(self)(self.encoder, now.gallery, self.method, **values)
        twin._updater.ledger.replace(now, history)
        twin._updater.gathered = list(self._updater.gathered)
        twin._origins = self._origins
        twin._updater.find_rate(found(self._origins))
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

    def describe(self) -> None:
        """Print every setting in force with where it comes from."""
        sys.stdout.write(table(self) + "\n")

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
        now, batches = self._updater.ledger.copy()
        parts = (self.encoder, now.gallery, self.adaptation.matching, self.method, self._origins)
        return Snapshot(*parts, self.settings, now.state, batches if history else None)

    @classmethod
    @adaptation_modes()
    def load(
        cls,
        path: str | Path | bytes,
        encoder: Encoder,
        gallery: Candidates,
        method: Method | None = None,
        matcher: Matching | None = None,
        *,
        on_batch: Callable[[BatchStats], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
        **changes: Any,
    ) -> Self:
        """Take a stream up where `save` left it.

        Args:
            path: the file that `save` wrote, or its bytes.
            encoder: the encoder it was saved with.
            gallery: the candidates; they may have changed.
            method: needed where the method is one of your own.
            matcher: needed where the session had one.
            on_batch: called with the statistics of each batch.
            on_event: called with each event.
            changes: settings that may change: mode, guard, hubs, gather, worker,
                chunk, depth, steps, lr, history, name.

        Returns:
            A session with the saved state and history.
        """
        gallery = as_gallery(gallery)
        check_parts(encoder, gallery, method or Method(), matcher)
        stored = read_state(path, encoder, method, matcher, changes)
        values: dict[str, Any] = {name: getattr(stored.settings, name) for name in SETTINGS}
        values |= {"matcher": matcher, "on_batch": on_batch, "on_event": on_event}
        session = cls(encoder, gallery, stored.method, **values)
        session._origins, stages = stored.origins, session.adaptation.stages
        session._updater.find_rate(found(stored.origins))
        session.restore(stored.state(session.state, gallery, stages), stored.history())
        return session

    @property
    def encoder(self) -> Encoder:
        """The encoder, which never changes."""
        return self.adaptation.encoder

    @property
    def method(self) -> Method:
        """The method, with learning rate and temperature filled in."""
        return self.adaptation.method

    @property
    def settings(self) -> Settings:
        """How the session runs."""
        return self.adaptation.settings

    @property
    def adaptation(self) -> Adaptation:
        """Encoder, method and settings: how a state becomes the next one."""
        return self._updater.adaptation

    @property
    def state(self) -> State:
        """What has been learnt so far."""
        return self._updater.ledger.now.state

    @property
    def params(self) -> Params:
        """The adapted parameters as they are now."""
        return dict(self.state.learnt)

    @property
    def history(self) -> list[BatchStats]:
        """The statistics of the batches so far, the latest last."""
        return self._updater.ledger.history

    @property
    def dropped(self) -> int:
        """Updates in the background that never took effect."""
        return self._updater.dropped

    @property
    def origins(self) -> Mapping[str, str]:
        """Where learning rate and temperature come from."""
        return self._origins

    @property
    def gallery(self) -> Searchable:
        """The candidates; may be replaced by others of the same dimension."""
        return self._updater.ledger.now.gallery

    @gallery.setter
    @adaptation_modes()
    def gallery(self, gallery: Candidates) -> None:
        self._updater.move(as_gallery(gallery))

    @property
    def on_batch(self) -> Callable[[BatchStats], object] | None:
        """Called with the statistics of each batch; may be replaced."""
        return self._updater.on_batch

    @on_batch.setter
    def on_batch(self, callback: Callable[[BatchStats], object] | None) -> None:
        self._updater.on_batch = callback

    @property
    def on_event(self) -> Callable[[Event], object] | None:
        """Called with each event; may be replaced."""
        return self._updater.on_event

    @on_event.setter
    def on_event(self, callback: Callable[[Event], object] | None) -> None:
        self._updater.on_event = callback

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
