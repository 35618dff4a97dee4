"""Answer many sessions at once: each row of a forward has its session's parameters."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.encoders.prepared import check_several, count, each, take
from queryshift.errors import BadInput, CannotAdapt
from queryshift.galleries import EngineGallery, Id, Searchable
from queryshift.galleries.exclusions import (
    Exclusion,
    excluded_pairs,
    exclusions_by_query,
    joined_queries,
)
from queryshift.methods.optimiser import Layout
from queryshift.retrieval.answer import SHORTLIST, Answer
from queryshift.retrieval.forward import Batch, Forward, checked
from queryshift.retrieval.pool import Pool
from queryshift.support.threads import working
from queryshift.support.torch_modes import adaptation_modes

from .policy import answer_now, answer_of, ranking, weight_of
from .session import Session
from .state import Adaptation, State
from .updater import InForce

AGREEMENT = 1e-2  # between unit vectors; the weights they are tried with move them much further
_tried: WeakKeyDictionary[Encoder, int] = WeakKeyDictionary()


@working()
@adaptation_modes()
@torch.no_grad()
def answer_many(
    sessions: Sequence[Session],
    batches: Sequence[Sequence[Any]],
    exclude: Sequence[Sequence[Exclusion] | None] | None = None,
    hits: int | None = None,
) -> list[Answer]:
    """Answer a batch of queries for each of many sessions of one encoder, all at once.

    That takes two forwards at most: one with what the sessions have learnt, and one of the source
    model for those that a guard or shadow mode compares with it.

    The answers are those of each session's `answer(batch, adapt=False)`. Nothing changes: no
    session learns or counts the batch. To adapt, call `session.answer(batch)` session by session.

    Args:
        sessions: The sessions; a session may come more than once.
        batches: The queries of each.
        exclude: For each session, what its `answer` takes as `exclude`, or None.
        hits: How many hits you will ask for, if known: sessions of one gallery then share one
            search.

    Returns:
        An answer for each session.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> sessions = [qs.Session(text, gallery, qs.REST()) for _ in range(2)]
        >>> answers = qs.answer_many(sessions, [["one red square"], ["the green star"]])
        >>> [answer.top(1).ids for answer in answers]
        [[[0]], [[2]]]
    """
    encoder = _one_encoder(sessions, batches)
    left_out = [None] * len(sessions) if exclude is None else exclude
    if len(left_out) != len(sessions):
        raise BadInput(f"got exclusions for {len(left_out)} of {len(sessions)} sessions, one each.")
    asked = _asked(sessions, batches, left_out)
    shared = encoder.ready([query for one in asked for query in one.queries])
    compared = [one for one in asked if one.compared]
    sources = dict(zip(compared, _forwards(encoder, compared, shared, hits, {}), strict=True))
    batches_of = {one: _batch(one, shared, checked(sources[one])) for one in compared}
    for one, batch in batches_of.items():
        batch.source = sources[one]
    shares = {one: _share(one, batches_of.get(one)) for one in asked}
    adapted = [one for one in asked if shares[one] > 0]
    inside = _adapted_inside(adapted, encoder.parameter_names)
    learnt = dict(zip(adapted, _forwards(encoder, adapted, shared, hits, inside), strict=True))
    batches_of = {one: _batch(one, shared, learnt[one]) for one in adapted} | batches_of
    return [
        _answer(one, batches_of[one], learnt[one], shares[one])
        if one in learnt
        else _source_answer(one, batches_of[one])
        for one in asked
    ]


@dataclass(frozen=True, eq=False)
class _Asked:
    """One session's part of a mixed batch, with what is in force at that moment."""

    adaptation: Adaptation
    now: InForce
    queries: list[Any]
    exclude: list[list[Id]] | None
    first: int  # index of its first query

    @property
    def compared(self) -> bool:
        """Whether the source model is needed too."""
        settings = self.adaptation.settings
        learnt = settings.guard is not None and self.state.adapted.updates > 0
        return settings.mode == "shadow" or learnt

    @property
    def state(self) -> State:
        """The session's state."""
        return self.now.state

    @property
    def rows(self) -> slice:
        """Where its queries stand."""
        return slice(self.first, self.first + len(self.queries))


def _asked(
    sessions: Sequence[Session], batches: Sequence[Sequence[Any]], left_out: Sequence[Any]
) -> list[_Asked]:
    asked, first = [], 0
    for session, batch, ids in zip(sessions, batches, left_out, strict=True):
        queries, now = list(batch), session._updater.now
        left_out_here = exclusions_by_query(ids, len(queries))
        asked.append(_Asked(session.adaptation, now, queries, left_out_here, first))
        first += len(queries)
    return asked


def _forwards(
    encoder: Encoder, asked: Sequence[_Asked], shared: Any, hits: int | None, inside: Params
) -> list[Forward]:
    """The forwards of some sessions' queries, each with its own values of `inside`."""
    if not asked:
        return []
    sizes = [len(one.queries) for one in asked]
    part = shared
    if sum(sizes) < count(shared):
        part = each(shared, lambda tensor: torch.cat([tensor[one.rows] for one in asked]))
    vectors = _through_rows(encoder, asked, inside, part)
    parts = torch.split(vectors, sizes)
    excluded, galleries = _searched_together(asked, parts)
    forwards = [
        Forward(rows, gallery, pairs)
        for rows, gallery, pairs in zip(parts, galleries, excluded, strict=True)
    ]
    if hits is not None:
        fused = any(one.compared for one in asked)  # fusion needs more hits than it returns
        _search_at_once(forwards, max(hits, SHORTLIST) if fused else hits)
    return forwards


def _batch(one: _Asked, shared: Any, forward: Forward) -> Batch:
    """A session's queries as a batch of their own, which has had this forward."""
    part, adaptation = take(shared, one.rows), one.adaptation
    return Batch(adaptation.encoder, one.now.gallery, part, forward.exclude, depth=adaptation.depth)


def _share(one: _Asked, batch: Batch | None) -> float:
    """The adapted model's weight."""
    if batch is None:
        return 1.0
    if one.adaptation.settings.mode == "shadow":
        return 0.0
    return weight_of(one.adaptation, one.state, batch)


def _one_encoder(sessions: Sequence[Session], batches: Sequence[Sequence[Any]]) -> Encoder:
    if isinstance(sessions, Session) or not all(isinstance(one, Session) for one in sessions):
        raise BadInput(f"got {sessions!r}, expected a list of sessions, and a batch for each.")
    if not sessions or len(sessions) != len(batches):
        raise BadInput(f"got {len(sessions)} sessions and {len(batches)} batches: give one each.")
    for batch in batches:
        check_several(batch)
    if not all(len(batch) for batch in batches):
        raise BadInput("got an empty batch, expected at least one query for each session.")
    encoder = sessions[0].encoder
    if any(session.encoder is not encoder for session in sessions):
        raise BadInput("the sessions have different encoders: one forward needs one encoder.")
    if len(sessions) > 1:
        encoder.check_apart("ask each session by itself")
    if any(session.adaptation.matching is not None for session in sessions):
        raise BadInput("a session has a matcher, which reads more than vectors: ask it by itself.")
    return encoder


def _adapted_inside(asked: Sequence[_Asked], inside: Set[str]) -> Params:
    """The source values of all parameters that some session adapts inside the encoder."""
    found: Params = {}
    for one in asked:
        source = one.adaptation.source
        found |= {name: source[name] for name in source if name in inside and name not in found}
    return found


def _through_rows(encoder: Encoder, asked: Sequence[_Asked], source: Params, shared: Any) -> Tensor:
    """Unit vectors of a mixed batch, each row with its own session's parameters."""
    if not source or len(asked) == 1:
        return encoder.through(_params(asked[0], source), shared)
    layout = Layout.of(source)
    _try_out(encoder, layout, layout.flat(source), shared)
    vectors = torch.stack([_vector(one, layout, source) for one in asked])
    sizes = torch.tensor([len(one.queries) for one in asked], device=vectors.device)
    return encoder.through(layout.split(vectors.repeat_interleave(sizes, dim=0)), shared)


def _params(one: _Asked, source: Params) -> Params:
    """The session's parameters inside the encoder."""
    learnt = one.state.learnt
    return {name: learnt.get(name, value) for name, value in source.items()}


def _vector(one: _Asked, layout: Layout, source: Params) -> Tensor:
    """The same as one vector in the order of `layout`."""
    alike = list(one.state.layout.shapes.items()) == list(layout.shapes.items())
    if alike:
        return one.state.adapted.values
    return layout.flat(_params(one, source))


def _try_out(encoder: Encoder, layout: Layout, source: Tensor, shared: Any) -> None:
    """Test at the first mixed batch whether the encoder keeps its items apart."""
    if _tried.get(encoder) == encoder._generation or count(shared) < 2:
        return
    pair = take(shared, slice(0, 2))
    factors = torch.linspace(0.5, 1.5, len(source), dtype=source.dtype, device=source.device)
    weights = torch.stack([source, source * factors])
    alone = torch.stack(
        [encoder.through(layout.split(one), pair)[row] for row, one in enumerate(weights)]
    )
    try:
        mixed = encoder.through(layout.split(weights), pair)
    except RuntimeError:  # torch's, of shapes: a norm layer over other axes than its class says
        mixed = torch.full_like(alone, torch.nan)
    if not torch.allclose(mixed, alone, atol=AGREEMENT):
        raise CannotAdapt(
            f"{type(encoder).__name__} does not keep its items on the first axis of every norm "
            "layer, or has a norm layer of a kind of its own, so that rows cannot have weights of "
            "their own: ask each session by itself."
        )
    _tried[encoder] = encoder._generation


def _searched_together(
    asked: Sequence[_Asked], parts: Sequence[Tensor]
) -> tuple[list[Tensor | None], list[Searchable]]:
    """Each session's excluded pairs and gallery; sessions of one engine share a pool."""
    together: dict[EngineGallery, list[int]] = {}
    for row, one in enumerate(asked):
        if isinstance(one.now.gallery, EngineGallery):
            together.setdefault(one.now.gallery, []).append(row)
    for engine, rows in together.items():  # look up all ids at once
        ids = [query for row in rows for query in asked[row].exclude or ()]
        engine.positions([one for query in ids for one in query])
    galleries = [one.now.gallery for one in asked]
    excluded = [
        excluded_pairs(one.exclude, len(rows), gallery)
        for one, rows, gallery in zip(asked, parts, galleries, strict=True)
    ]
    for engine, rows in together.items():
        depth = max(asked[row].adaptation.depth for row in rows)
        queries, pairs = joined_queries([(parts[row], excluded[row]) for row in rows])
        pool = Pool(engine, depth, queries, pairs)
        for row in rows:
            galleries[row] = pool
    return excluded, galleries


def _search_at_once(forwards: Sequence[Forward], count: int) -> None:
    """Find the hits of all forwards over the same gallery in memory by one search."""
    together: dict[int, list[Forward]] = {}
    for forward in forwards:
        if not isinstance(forward.gallery, Pool):
            together.setdefault(id(forward.gallery), []).append(forward)
    for group in together.values():
        queries, pairs = joined_queries([(one.vectors, one.exclude) for one in group])
        gallery = group[0].gallery
        found = gallery.search(queries, count, pairs)
        if found.positions.shape[1] < min(count, len(gallery)):
            continue  # one query with many exclusions must not shorten the others' hits
        sizes = [len(one) for one in group]
        parts = (torch.split(part, sizes) for part in (found.positions, found.scores))
        for one, positions, scores in zip(group, *parts, strict=True):
            one.hit_cache["hits"] = (count, replace(found, positions=positions, scores=scores))


def _source_answer(one: _Asked, batch: Batch) -> Answer:
    """The source model's answer, and in shadow mode what a live session would answer."""
    adaptation, state = one.adaptation, one.state
    source = adaptation.source_forward(batch)
    live = replace(adaptation, settings=replace(adaptation.settings, mode="live"))
    order = ranking(adaptation, state, source, None, 0.0)
    return Answer(source, order, adapted=lambda: answer_now(live, state, batch, 0))


def _answer(one: _Asked, batch: Batch, plain: Forward, share: float) -> Answer:
    """One session's answer to its rows of the mixed batch."""
    adaptation, state = one.adaptation, one.state
    own: Params = {}
    inside = adaptation.encoder.parameter_names
    if not adaptation.source.keys() <= inside:  # TSA's modules lie behind the encoder
        learnt = adaptation.params(state)
        own = {name: value for name, value in learnt.items() if name not in inside}
    forward = checked(replace(plain, direct_params=own))
    viewed = adaptation.method.view(forward, state.memory).detached()
    return answer_of(adaptation, state, batch, viewed, share)
