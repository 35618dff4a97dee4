"""A batch of queries of several tenants, answered in one forward; runs in the model's thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from queryshift.errors import BadInput, CannotAdapt, Error
from queryshift.galleries.exclusions import known_exclusions
from queryshift.galleries.hits import Id
from queryshift.sessions.many import answer_many
from queryshift.sessions.session import Session
from queryshift.support.priority import answering

from .collection import Collection

logger = logging.getLogger("queryshift.serving")
Hit = dict[str, Any]  # {"id": ..., "score": ...}


@dataclass(frozen=True)
class Asked:
    """One query, and which answers to it are wanted.

    Attributes:
        item: the query, as the encoder takes it.
        exclude: ids to leave out.
        count: hits that are wanted.
        session: gives the adapted answer; None: it is not wanted.
        source: whether the source's answer is wanted.
    """

    item: Any
    exclude: Sequence[Id]
    count: int
    session: Session | None
    source: bool


@dataclass(frozen=True)
class Answered:
    """The answers to one query, or why there is none.

    Attributes:
        adapted: hits by what was learnt, if asked for.
        source: hits by the source model, if asked for.
        item: the query as its session learns it: a vector where nothing in the encoder is trained.
        error: what went wrong.
    """

    adapted: list[Hit] | None = None
    source: list[Hit] | None = None
    item: Any = None
    error: Exception | None = field(default=None, compare=False)


def answer_rows(collection: Collection, asked: Sequence[Asked]) -> list[Answered]:
    """The answers to a batch; where it fails as a whole, each query is answered by itself."""
    with answering():
        try:
            return _together(collection, asked)
        except (Error, RuntimeError):
            return [_alone(collection, one) for one in asked]


def _together(collection: Collection, asked: Sequence[Asked]) -> list[Answered]:
    items = collection.items([one.item for one in asked])
    exclusions = _exclusions(collection, asked)
    rows: dict[Session, list[int]] = {}
    for row, one in enumerate(asked):
        for session in _sessions(collection, one):
            rows.setdefault(session, []).append(row)
    answers = answer_many(
        list(rows),
        [[items[row] for row in own] for own in rows.values()],
        [[exclusions[row] for row in own] for own in rows.values()] if any(exclusions) else None,
        hits=max(one.count for one in asked),
    )
    hits: dict[tuple[Session, int], list[Hit]] = {}
    for (session, own), answer in zip(rows.items(), answers, strict=True):
        found = answer.top(max(asked[row].count for row in own))
        for row, ids, scores in zip(own, found.ids, found.scores.tolist(), strict=True):
            hits[session, row] = _hits(ids, scores, asked[row].count)
    return [
        Answered(
            None if one.session is None else hits[one.session, row],
            hits.get((collection.source, row)),
            items[row] if collection.encodes_first else None,
        )
        for row, one in enumerate(asked)
    ]


def _alone(collection: Collection, one: Asked) -> Answered:
    """One query's answers; each session's by itself, where they cannot be asked together.

    Where the source's is wanted too, it stands for one that cannot be given.
    """
    try:
        return _together(collection, [one])[0]
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
        items = collection.items([one.item])
        found = session.answer(items, False, [list(one.exclude)], missing="ignore").top(one.count)
        hits = _hits(found.ids[0], found.scores[0].tolist(), one.count)
        return Answered(hits, item=items[0] if collection.encodes_first else None)
    except (Error, RuntimeError) as error:
        return Answered(error=error)


def _sessions(collection: Collection, one: Asked) -> list[Session]:
    source = [collection.source] if one.source else []
    return source if one.session is None else [*source, one.session]


def _exclusions(collection: Collection, asked: Sequence[Asked]) -> list[list[Id]]:
    """What each query leaves out, without ids that no candidate has: deleted ones are normal."""
    if not any(one.exclude for one in asked):
        return [[] for _ in asked]
    group = [(None, list(one.exclude)) for one in asked]
    known = known_exclusions(group, collection.gallery, "ignore")
    return [list(ids or []) for _, ids in known]  # type: ignore[arg-type]


def _hits(ids: Sequence[Id], scores: Sequence[float], count: int) -> list[Hit]:
    return [
        {"id": id, "score": round(score, 6)}
        for id, score in zip(ids[:count], scores[:count], strict=True)
    ]
