"""A session: one query stream that a model adapts to. Encoders and methods never change."""

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
from queryshift.galleries.exclusions import Exclusion, Missing
from queryshift.methods.base import Method
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.support.priority import answering
from queryshift.support.torch_modes import adaptation_modes

from .batch_stats import BatchStats
from .describe import found, origins, table
from .events import Event
from .guard import Guard
from .inputs import Candidates, as_gallery, check_parts
from .policy import default_method, default_settings
from .session_settings import LEFT_OPEN, Mode, ScoreFrom, Settings, given
from .state import Adaptation, State
from .state_file import Snapshot, read_state, write_state
from .updater import OnBad, Updater


class Session:
    """Answer queries and adapt to them, online and without labels.

    Args:
        encoder: turns queries into vectors; it never changes.
        gallery: the candidates, or an array or tensor of their vectors (candidates, dimensions),
            whose row numbers become the ids.
        method: how to adapt, with its settings: `REST()`. The default is `InfoMax()` with
            `hubs=Hubs()` and `guard=Guard()` (docs/guard.md), or `Frozen()` if queries are
            vectors.
        lr: learning rate; wins over the method's own.
        matcher: reranks the best hits: `matcher.over(items)`.
        on_batch: called with the `BatchStats` of each batch.
        on_event: called with each `Event`; events are also logged by the logger "queryshift".
        steps: updates per batch (3).
        score_from: when a batch is answered: "before" its updates, "after" them, or before the last
            one ("last_forward"). The default is "after" without a method, else "last_forward".
        gather: answer queries at once, and adapt whenever this many have come.
        worker: adapt to gathered queries in the background.
        chunk: queries per graph; limits memory.
        depth: number of hits to fetch from a search engine for each query (100), or more if the
            guard, hub correction or a matcher needs more; later steps of the batch search among
            them.
        guard: limits what queries can do to the session; None is the bare method (docs/guard.md).
        hubs: hub correction of the answers, with any method: `Hubs()`. It is the default without a
            method, unless the guard is None.
        mode: "live", or "shadow": the source model answers while the session adapts.
        watch_angle: measure drift and gradient angles.
        seed: random seed of the method.
        history: number of batches whose statistics are kept (65,536).
        name: name of the session in log records and events.

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
            queries: items of the encoder's modality; with `Vectors` also a single vector.
            adapt: whether to learn from them. If not, the current state answers at once, even
                while another thread adapts.
            exclude: for each query, candidates to leave out of search and adaptation. All queries
                get the same number of hits: as many as the query with the most exclusions has.
            on_bad: "raise" refuses a batch with an unreadable item, "skip" answers the others;
                `Answer.skipped` lists those that were left out.
            missing: "raise" refuses ids in `exclude` that no candidate has; "ignore" accepts them,
                for example ids of deleted products.

        Returns:
            The answer; `.top(10).ids` are the ten best candidates of each query.
        """
        if not isinstance(adapt, bool):
            raise BadInput(f"adapt is {shortened(adapt)}, expected true or false.")
        updater = self._updater
        first = answering() if self.settings.worker else nullcontext()
        with first, adaptation_modes():
            if self.settings.worker:
                updater.worker.check()
            asked = updater.read(queries, exclude, missing, on_bad)
            if self.settings.gather is not None and adapt and self.method.adapting:
                answer = updater.answer_now(asked)
                updater.gather(asked)
            else:
                answer = updater.advance(asked, adapt)
            answer.skipped = asked.skipped
            return answer

    def wait(self) -> None:
        """Wait until no update runs in the background; raise the error of one that failed."""
        self._updater.worker.wait()  # without a lock, which an update needs to take effect
        self._updater.worker.check()

    @adaptation_modes()
    def reset(self) -> None:
        """Forget everything: source parameters, empty memory, as in a new session.

        With `hubs`, each batch is still corrected by its own queries, as in a new session. For the
        source model's answers use `answer.source` or `go_shadow`.
        """
        self._updater.reset()

    def go_live(self) -> None:
        """Answer with what was learnt from the next batch on (`Answer.adapted`)."""
        self._updater.switch("live")

    def go_shadow(self) -> None:
        """Answer with the source model from the next batch on, and keep adapting."""
        self._updater.switch("shadow")

    def undo(self) -> None:
        """Return to the state before the last batch."""
        self._updater.undo()

    def restore(self, state: State, history: Sequence[BatchStats] = ()) -> None:
        """Replace the state by another one.

        Args:
            state: A value of `session.state`, learnt over the gallery that is in force.
            history: The statistics that belong to it.
        """
        if not isinstance(state, State):
            raise BadInput(
                f"got a {type(state).__name__} as state, expected a value of session.state."
            )
        self._updater.restore(state, history)

    def fork(self) -> Self:
        """Copy the session; from then on both are independent.

        Returns:
            A session with the same encoder, gallery, method, settings and state.
        """
        return self._made_of(self._updater.fork(), self._origins)

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> Any:
        raise BadInput(
            "a session cannot be pickled: save(path), then Session.load(path, encoder, gallery) "
            "in the other process."
        )

    def stats(self) -> BatchStats:
        """The statistics of the latest batch.

        Returns:
            The last entry of `history`; without a batch, an error.
        """
        if not self.history:
            raise BadInput("there are no statistics yet: answer a batch first.")
        return self.history[-1]

    def describe(self) -> None:
        """Print every setting and where it comes from."""
        sys.stdout.write(table(self) + "\n")

    def save(self, path: str | Path, history: bool = True) -> None:
        """Write the session to a file, atomically; gathered queries are not saved.

        Args:
            path: the file to write.
            history: whether to save the statistics of the batches so far.
        """
        write_state(path, self.snapshot(history))

    def snapshot(self, history: bool = True) -> Snapshot:
        """What `save` writes, as a value; fast, even while another thread adapts.

        Args:
            history: Whether to include the statistics of the batches so far.

        Returns:
            State, settings and history at one moment.
        """
        now, batches = self._updater.copy()
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
        """Load a saved session and go on with its stream.

        Args:
            path: the file that `save` wrote, or its bytes.
            encoder: the encoder it was saved with.
            gallery: the candidates; they may have changed.
            method: the method, if it is one of your own.
            matcher: the matcher, if the session had one.
            on_batch: called with the statistics of each batch.
            on_event: called with each event.
            changes: settings to change, of mode, guard, hubs, gather, worker,
                chunk, depth, steps, lr, history, name.

        Returns:
            A session with the saved state and history.
        """
        gallery = as_gallery(gallery)
        check_parts(encoder, gallery, method or Method(), matcher)
        stored = read_state(path, encoder, method, matcher, changes)
        adaptation = Adaptation.of(
            encoder, gallery, stored.method, stored.settings, matcher, found(stored.origins)
        )
        updater = Updater(adaptation, gallery, on_batch, on_event)
        session = cls._made_of(updater, stored.origins)
        session.restore(stored.state(session.state, gallery), stored.history())
        return session

    @classmethod
    def _made_of(cls, updater: Updater, origins: Mapping[str, str]) -> Self:
        """A session of parts that are checked already."""
        session = cls.__new__(cls)
        session._updater, session._origins = updater, origins
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
        """Encoder, method and settings."""
        return self._updater.adaptation

    @property
    def state(self) -> State:
        """Everything learnt so far."""
        return self._updater.now.state

    @property
    def params(self) -> Params:
        """The current values of the adapted parameters."""
        return dict(self.state.learnt)

    @property
    def history(self) -> list[BatchStats]:
        """The statistics of the last batches (65,536; the setting `history`), the latest last."""
        return self._updater.history

    @property
    def dropped(self) -> int:
        """Updates in the background that never took effect."""
        return self._updater.dropped

    @property
    def origins(self) -> Mapping[str, str]:
        """Where settings come from, by name."""
        return self._origins

    @property
    def gallery(self) -> Searchable:
        """The candidates; can be replaced by others of the same dimension."""
        return self._updater.now.gallery

    @gallery.setter
    @adaptation_modes()
    def gallery(self, gallery: Candidates) -> None:
        self._updater.move(as_gallery(gallery))

    @property
    def on_batch(self) -> Callable[[BatchStats], object] | None:
        """Called with the statistics of each batch; can be replaced."""
        return self._updater.on_batch

    @on_batch.setter
    def on_batch(self, callback: Callable[[BatchStats], object] | None) -> None:
        self._updater.on_batch = callback

    @property
    def on_event(self) -> Callable[[Event], object] | None:
        """Called with each event; can be replaced."""
        return self._updater.on_event

    @on_event.setter
    def on_event(self, callback: Callable[[Event], object] | None) -> None:
        self._updater.on_event = callback

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except AttributeError:
            raise BadInput(
                f"got session.{name} = {shortened(value)}, which has no effect: pass settings to "
                f"Session(..., {name}=...) or Session.load."
            ) from None

    def __repr__(self) -> str:
        batches, kind = self.state.batches, type(self.encoder).__name__
        named = f"{self.settings.name}: " if self.settings.name else ""
        return (
            f"Session({named}{self.method.name}, {kind}, {len(self.gallery):,} candidates, "
            f"{self.settings.mode}, {batches} {'batch' if batches == 1 else 'batches'})"
        )
