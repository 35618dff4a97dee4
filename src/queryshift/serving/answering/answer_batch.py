"""A batch of queries of several tenants, answered in one forward; runs in the model's thread."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from queryshift.errors import BadInput, CannotAdapt, Error
from queryshift.galleries.exclusions import known_exclusions
from queryshift.galleries.hits import Id
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.fusion import FusedRanking
from queryshift.sessions.batched import answer_many
from queryshift.sessions.session import Session
from queryshift.support.priority import answering

from ..collection import Collection

logger = logging.getLogger("queryshift.serving")
Hit = dict[str, Any]  # {"id": ..., "score": ...}
By = Literal["source", "adapted", "both"]
Value = TypeVar("Value")
PLACES = 20  # of an answer that are remembered: a click further down says next to nothing
TOP = 10  # places that do not depend on the batch
NEAR = 1e-5  # between similarities; the batch changes them by a tenth of it
NEAR_SHARE = 1e-3  # of a probability: a softmax makes of that change such a part of it, or less


@dataclass(frozen=True)
class Asked:
    """Queries of one request that are answered together, and which answers are wanted.

    Attributes:
        items: the queries, as the encoder takes them.
        exclude: ids to leave out, for each.
        count: hits that are wanted.
        session: gives the adapted answers; None: they are not wanted.
        source: whether the source's answers are wanted.
    """

    items: Sequence[Any]
    exclude: Sequence[Sequence[Id]]
    count: int
    session: Session | None
    source: bool

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> Asked:
        return replace(self, items=self.items[part], exclude=self.exclude[part])


@dataclass(frozen=True)
class Answered:
    """The answers to one query, or why there is none.

    Attributes:
        adapted: hits by what was learnt, if asked for.
        source: hits by the source model, if asked for.
        item: the query as its session learns it: a vector where nothing in the encoder is trained.
        by: who gave the adapted answer: "adapted", "both" models, or the "source" alone.
        error: what went wrong.
    """

    adapted: list[Hit] | None = None
    source: list[Hit] | None = None
    item: Any = None
    by: By = "source"
    error: Exception | None = field(default=None, compare=False)

    def both(self) -> dict[str, list[Hit]]:
        """The first places of both answers, as they are remembered."""
        return {"source": (self.source or [])[:PLACES], "adapted": (self.adapted or [])[:PLACES]}


def answer_rows(collection: Collection, asked: Sequence[Asked]) -> list[list[Answered]]:
    """The answers to a batch; where it fails as a whole, each query is answered by itself.

    A request's top ten are the same whoever else is in its batch. Sums of other sizes are rounded
    otherwise, so where two of its scores are too near to tell, it is answered in a batch of its
    own.
    """
    with answering():
        try:
            found = _together(collection, asked)
            if len(asked) > 1:
                for place in found.too_near:
                    found.rows[place] = _together(collection, [asked[place]]).rows[0]
            return found.rows
        except (Error, RuntimeError):
            return [
                [_alone(collection, one[row : row + 1]) for row in range(len(one))] for one in asked
            ]


@dataclass(frozen=True)
class _Found:
    """The answers to each of several requests, and which have scores that are too near to tell."""

    rows: list[list[Answered]]
    too_near: Set[int]


def _together(collection: Collection, asked: Sequence[Asked]) -> _Found:
    counts = [len(one) for one in asked]
    items = _split(collection.items([item for one in asked for item in one.items]), counts)
    exclude = _split(_exclusions(collection, asked), counts)
    sourced = [place for place, one in enumerate(asked) if one.source]
    groups = [(collection.source, sourced)] if sourced else []
    groups += [(one.session, [place]) for place, one in enumerate(asked) if one.session]
    answers = answer_many(
        [session for session, _ in groups],
        [_joined(items, places) for _, places in groups],
        [_joined(exclude, places) for _, places in groups] if any(map(any, exclude)) else None,
        hits=max(one.count for one in asked) + 1,
    )
    kept = [part if collection.encodes_first else [None] * len(part) for part in items]
    rows, too_near = [[Answered(item=item) for item in part] for part in kept], set[int]()
    for (session, places), answer in zip(groups, answers, strict=True):
        found = answer.top(max(asked[place].count for place in places) + 1)
        near = _too_near(answer, found.scores).tolist()
        each = zip(found.ids, found.scores.tolist(), near, strict=True)
        for place in places:
            for row, before in enumerate(rows[place]):
                ids, scores, close = next(each)
                hits = _hits(ids, scores, asked[place].count)
                if session is collection.source:
                    rows[place][row] = replace(before, source=hits)
                else:
                    rows[place][row] = replace(before, adapted=hits, by=_by(session, answer))
                if close:
                    too_near.add(place)
    return _Found(rows, too_near)


def _alone(collection: Collection, one: Asked) -> Answered:
    """One query's answers; each session's by itself, where they cannot be asked together.

    Where the source's is wanted too, it stands for one that cannot be given.
    """
    try:
        return _together(collection, [one]).rows[0][0]
    except (Error, RuntimeError) as error:
        if one.session is None or not isinstance(error, BadInput | CannotAdapt | RuntimeError):
            return Answered(error=error)
    adapted = _by_itself(collection, one, one.session)
    if not one.source:
        return adapted
    source = _by_itself(collection, one, collection.source)
    if adapted.error is not None:
        logger.warning("the source answers for a session: %s", adapted.error)
        adapted = source
    return replace(adapted, source=source.adapted, error=source.error)


def _by_itself(collection: Collection, one: Asked, session: Session) -> Answered:
    """A session's own answer; one whose guard gives up what it learnt answers all the same."""
    try:
        items = collection.items(one.items)
        exclude = [list(ids) for ids in one.exclude]
        answer = session.answer(items, False, exclude, missing="ignore")
        found = answer.top(one.count)
        hits = _hits(found.ids[0], found.scores[0].tolist(), one.count)
        item = items[0] if collection.encodes_first else None
        return Answered(hits, item=item, by=_by(session, answer))
    except (Error, RuntimeError) as error:
        return Answered(error=error)


def _by(session: Session, answer: Answer) -> By:
    """Who gave a session's answer: with a guard the source has its say, or all of it."""
    if isinstance(answer.ranking, FusedRanking):
        return "both"
    learnt = session.state.adapted.updates > 0 and session.settings.guard is None
    return "adapted" if learnt else "source"


def _exclusions(collection: Collection, asked: Sequence[Asked]) -> list[list[Id]]:
    """What each query leaves out, without ids that no candidate has: deleted ones are normal."""
    given = [list(ids) for one in asked for ids in one.exclude]
    if not any(given):
        return given
    known = known_exclusions([(None, ids) for ids in given], collection.gallery, "ignore")
    return [list(ids or []) for _, ids in known]  # type: ignore[arg-type]


def _too_near(answer: Answer, scores: Tensor) -> Tensor:
    """Whether two of a row's first scores are as good as the same.

    Scores of both models' mixture are probabilities, large and tiny ones: what the batch changes
    of them is a part of each.
    """
    first = scores[:, : TOP + 1]
    fused = isinstance(answer.ranking, FusedRanking)
    margin = NEAR_SHARE * first[:, :-1] if fused else torch.full_like(first[:, :-1], NEAR)
    return ((first[:, :-1] - first[:, 1:]) <= margin).any(dim=1)


def _split(rows: Sequence[Value], counts: Sequence[int]) -> list[Sequence[Value]]:
    """Rows of all requests as those of each."""
    return [rows[start:end] for start, end in pairwise(accumulate(counts, initial=0))]


def _joined(rows: Sequence[Sequence[Value]], places: Iterable[int]) -> list[Value]:
    return [one for place in places for one in rows[place]]


def _hits(ids: Sequence[Id], scores: Sequence[float], count: int) -> list[Hit]:
    return [
        {"id": id, "score": round(score, 6)}
        for id, score in zip(ids[:count], scores[:count], strict=True)
    ]
