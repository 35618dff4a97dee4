"""A session: one query stream being adapted to. Nothing else in the library changes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.matcher import Matching
from queryshift.encoders.prepared import check_several
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries import Searchable
from queryshift.galleries.exclusions import (
    Exclusion,
    Group,
    excluded_pairs,
    exclusions_by_query,
    exclusions_left,
)
from queryshift.methods.base import Method
from queryshift.retrieval.forward import Batch, Forward, Wanted
from queryshift.retrieval.reranking import reranked
from queryshift.support.priority import answering
from queryshift.support.torch_modes import adaptation_modes

from .background import Worker
from .batch_stats import BatchStats
from .describe import origins, table
from .guard import Guard
from .settings import Mode, ScoreFrom, Settings
from .state_file import read_state, snapshot, write_state
from .step import Adaptation, BatchResult, State, checked

REMEMBERED = 2**16  # batches in the history, some 25 MB: a session may answer for months


class Session:
    """Answers queries and adapts to them, online and without labels.

    `lr` wins over the method's own; `steps` updates per batch; `gather` answers single queries at
    once and adapts when so many have gathered, with `worker` beside the answers instead of in
    turn; `chunk` bounds memory; `mode="shadow"` answers with the source model and adapts beside it.
    """

    dropped: int
    """Updates that never took effect: one was running still, or the session was moved under it."""

    @adaptation_modes()
    def __init__(
        self,
        encoder: Encoder,
        gallery: Searchable,
        method: Method,
        *,
        lr: float | None = None,
        steps: int = 3,
        score_from: ScoreFrom = "last_forward",
        gather: int | None = None,
        worker: bool = False,
        chunk: int | None = None,
        guard: Guard | None = None,
        mode: Mode = "live",
        watch_angle: bool = False,
        seed: int = 0,
        matcher: Matching | None = None,
    ) -> None:
        settings = Settings(
            steps=steps,
            score_from=score_from,
            gather=gather,
            worker=worker,
            chunk=chunk,
            guard=guard,
            mode=mode,
            watch_angle=watch_angle,
            seed=seed,
        )
        _check_parts(encoder, gallery, matcher)
        if not isinstance(method, Method):
            raise BadInput(f"got {method!r} as method, expected one with its settings: REST().")
        self.origins: Mapping[str, str] = origins(method, encoder, lr)
        resolved = method.resolved(encoder, lr)
        self._begin(Adaptation.of(encoder, gallery, resolved, settings, matcher), gallery)

    def _begin(self, adaptation: Adaptation, gallery: Searchable) -> None:
        matching = adaptation.matching
        if matching is not None and len(matching) != len(gallery):
            raise GalleryMismatch(
                f"the matcher is over {len(matching)} candidates, the gallery has {len(gallery)}: "
                "make it over the gallery's own items, in their order."
            )
        self.adaptation = adaptation
        self.history: list[BatchStats] = []
        self.dropped = 0
        self._gallery = gallery
        self._state = self.adaptation.fresh(gallery)
        self._before: State | None = None
        self._wanted = Wanted()
        self._gathered: list[tuple[Any, Exclusion]] = []
        self._lock, self._worker = threading.RLock(), Worker()

    def answer(
        self,
        queries: Sequence[Any],
        adapt: bool = True,
        exclude: Sequence[Exclusion] | None = None,
    ) -> Forward:
        """Adapt to a batch of queries, then answer it; `.top(k)` of the result are the hits.

        `exclude` names, for each query, candidates to leave out of search and adaptation; all
        queries get equally many hits, no more than the one with the most exclusions has left.
        """
        first = answering() if self.settings.worker else nullcontext()
        with self._lock, first, adaptation_modes():
            self._worker.check()
            check_several(queries)
            queries, exclude = list(queries), exclusions_by_query(exclude)
            batch = self._batch(queries, exclude, self._gallery)
            if self.settings.gather is not None and adapt and self.method.adapting:
                answer = self._answer_at_once(batch)
                self._gather(queries, exclude)
                return answer
            return self._answer_in_turn(batch, adapt)

    def wait(self) -> None:
        """Return when no update is running beside the answers; raise what went wrong in one."""
        self._worker.wait()  # without the lock, which an update needs to take effect
        self._worker.check()

    @adaptation_modes()
    def reset(self) -> None:
        """Forget everything: back to the source parameters, memory and optimiser empty."""
        with self._lock:
            self.restore(self.adaptation.fresh(self._gallery))
            self._gathered = []

    def undo(self) -> None:
        """Return to the state before the last batch."""
        with self._lock:
            if self._before is None:
                raise BadInput("there is no batch to undo: none was answered since the last undo.")
            self.restore(self._before, self.history[:-1])

    def fork(self) -> Self:
        """Another session that starts from this one's state and goes its own way."""
        with self._lock:
            twin = type(self).__new__(type(self))
            vars(twin).update(vars(self))
            twin._lock, twin._worker = threading.RLock(), Worker()
            twin.history, twin._gathered = list(self.history), list(self._gathered)
            return twin

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, known: dict[int, Any]) -> Self:
        return self.fork()

    def __getstate__(self) -> Any:
        raise BadInput(
            "a session cannot be pickled: save(path), then Session.load(path, encoder, gallery) "
            "where it is to go on."
        )

    def stats(self) -> BatchStats:
        """The session's view of its latest batch; `history` has those of the last 65,536."""
        if not self.history:
            raise BadInput("nothing to report yet: answer a batch first.")
        return self.history[-1]

    def describe(self) -> None:
        """Print every setting in force, with where it comes from."""
        sys.stdout.write(table(self) + "\n")

    def save(self, path: str | Path) -> None:
        """Write the state, whole or not at all; queries still gathering are not part of it."""
        with self._lock:
            taken = snapshot(self)
        write_state(path, taken)

    @classmethod
    @adaptation_modes()
    def load(
        cls,
        path: str | Path,
        encoder: Encoder,
        gallery: Searchable,
        method: Method | None = None,
        matcher: Matching | None = None,
    ) -> Self:
        """Take a stream up where `save` left it; a method of your own, a matcher are passed."""
        _check_parts(encoder, gallery, matcher)
        stored = read_state(path, encoder, method, matcher)
        session = cls.__new__(cls)
        session.origins = stored.origins
        adaptation = Adaptation.of(encoder, gallery, stored.method, stored.settings, matcher)
        session._begin(adaptation, gallery)
        session.restore(stored.state(session.state, gallery), stored.history())
        return session

    def restore(self, state: State, history: Sequence[BatchStats] = ()) -> None:
        """Put another state in the place of this one."""
        with self._lock:
            self._state, self._before, self.history = state, None, list(history)

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
    def state(self) -> State:
        """What has been learnt so far."""
        return self._state

    @property
    def params(self) -> Params:
        """The adapted parameters as they are now."""
        return dict(self._state.learnt)

    @property
    def gallery(self) -> Searchable:
        """The candidates; may be replaced by others of the same dimension."""
        return self._gallery

    @gallery.setter
    @adaptation_modes()
    def gallery(self, gallery: Searchable) -> None:
        with self._lock:
            if gallery.dimension != self._gallery.dimension:
                raise GalleryMismatch(
                    f"the new gallery has {gallery.dimension} dimensions, this session's vectors "
                    f"have {self._gallery.dimension}: was it built by another model?"
                )
            if self.adaptation.matching is not None:
                raise BadInput("a session with a matcher keeps its gallery: start another session.")
            self._gallery, self._state = gallery, self._moved(self._state, gallery)
            if self._before is not None:
                self._before = self._moved(self._before, gallery)
            self._gathered = exclusions_left(self._gathered, gallery)

    def _moved(self, state: State, gallery: Searchable) -> State:
        """The state with what the method remembers of another gallery's candidates gone."""
        return replace(state, memory=self.method.moved(state.memory, gallery))

    def _answer_at_once(self, batch: Batch) -> Forward:
        if self.settings.mode == "shadow":
            return reranked(checked(self.adaptation.seen_by_source(batch)))
        as_before = self._wanted.count  # likely to be asked for again
        try:
            forward = self.adaptation.see(self._state, batch, as_before)
        except (BadInput, RuntimeError):
            if not self.adaptation.sees_nonsense(self._state, batch):
                raise
            return self._answer_in_turn(batch, adapt=False)  # a guard gives up what was learnt
        self._wanted = Wanted()  # searched for is not asked for
        return replace(reranked(forward), wanted=self._wanted)

    def _answer_in_turn(self, batch: Batch, adapt: bool) -> Forward:
        outcome = self.adaptation.outcome(self._state, batch, adapt)
        self._commit(outcome)
        return outcome.answer

    def _gather(self, queries: list[Any], exclude: Sequence[Exclusion] | None) -> None:
        """Keep queries; adapt to each group of them that is complete."""
        size = self.settings.gather or 1
        waiting = [*self._gathered, *zip(queries, exclude or [None] * len(queries), strict=True)]
        groups = [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)]
        if self.settings.worker:
            for group in groups:
                self._adapt_beside(group)
        else:
            self._adapt_in_turn(groups)
        self._gathered = waiting[len(groups) * size :]

    def _adapt_in_turn(self, groups: Sequence[Group]) -> None:
        state, outcomes = self._state, []
        for group in groups:
            outcomes.append(self._outcome(group, state, self._gallery))
            state = outcomes[-1].state
        for outcome in outcomes:  # only now: a group that fails leaves the session as it was
            self._commit(outcome)

    def _adapt_beside(self, group: Group) -> None:
        """Adapt in the background, unless an update is running there: then drop the group."""
        if self._worker.busy:
            self.dropped += 1
            return
        state, gallery = self._state, self._gallery

        def commit(outcome: BatchResult) -> None:
            self._worker.hand_over(outcome.state.learnt)
            with self._lock:
                if self._learnt_as_in(state) and self._gallery is gallery:
                    self._commit(_after(outcome, self._state.batches))
                else:  # reset, undone, restored, or given another gallery
                    self.dropped += 1

        update = partial(self._outcome, group, state, gallery)
        self._worker.start(update, commit, self.encoder.device)

    def _learnt_as_in(self, state: State) -> bool:
        """Whether nothing was learnt, given up or undone since; a memory may learn alone."""
        now = self._state
        as_then = now.adapted is state.adapted and now.memory is state.memory
        return as_then and now.ordinary_streak == state.ordinary_streak

    def _outcome(self, group: Group, state: State, gallery: Searchable) -> BatchResult:
        queries, exclude = map(list, zip(*group, strict=True))
        return self.adaptation.outcome(state, self._batch(queries, exclude, gallery), True)

    def _check_device(self) -> None:
        """Refuse an encoder that went elsewhere: what was learnt did not go with it."""
        first = next(iter(self.adaptation.source.values()), None)
        if first is not None and first.device != self.encoder.device:
            raise BadInput(
                f"the encoder is on {self.encoder.device}, but was on {first.device} when the "
                "session was made: save it, then Session.load it for the encoder as it is."
            )

    def _commit(self, outcome: BatchResult) -> None:
        self._before, self._state = self._state, outcome.state
        self.history.append(outcome.shift)
        del self.history[:-REMEMBERED]

    def _batch(
        self, queries: list[Any], exclude: Sequence[Exclusion] | None, gallery: Searchable
    ) -> Batch:
        self._check_device()
        shared = self.encoder.ready(queries)
        pairs = excluded_pairs(exclude, len(queries), gallery)
        matching, chunk = self.adaptation.matching, self.settings.chunk
        return Batch(self.encoder, gallery, shared, pairs, chunk, matching)


def _check_parts(encoder: Any, gallery: Any, matcher: Any) -> None:
    """Refuse what is no encoder, gallery or matcher, and say what is."""
    if isinstance(encoder, Mapping):
        names = " or ".join(f'model["{name}"]' for name in encoder)
        raise BadInput(f"got a whole model as encoder, expected one of its encoders: {names}.")
    if not isinstance(encoder, Encoder):
        raise BadInput(
            f"got a {type(encoder).__name__} as encoder, expected an Encoder: load the model with "
            "queryshift.load, or wrap it (docs/your-own-model.md)."
        )
    if not hasattr(gallery, "search"):
        raise BadInput(
            f"got a {type(gallery).__name__} as gallery: make one with Gallery.build(encoder, "
            "items) or Gallery.from_vectors(ids, vectors)."
        )
    if not (matcher is None or isinstance(matcher, Matching)):
        raise BadInput(
            f"got a {type(matcher).__name__} as matcher, expected one over the gallery's items: "
            "matcher.over(items)."
        )


def _after(outcome: BatchResult, batches: int) -> BatchResult:
    """The outcome counted behind batches that were only answered while it was in the making."""
    if outcome.state.batches == batches + 1:
        return outcome
    state = replace(outcome.state, batches=batches + 1)
    return replace(outcome, state=state, shift=replace(outcome.shift, batch=batches + 1))
