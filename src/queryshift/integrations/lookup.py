"""From a query to the documents behind a session's hits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.sessions.session import Session


class Match(NamedTuple):
    """A candidate that was found."""

    id: Id
    document: Any
    score: float


def matches(
    session: Session, documents: Mapping[Any, Any], query: str, k: int, adapt: bool
) -> list[Match]:
    """The best k candidates of one query with their documents, best first.

    Args:
        session: answers the query.
        documents: a text or document for each id of the gallery.
        query: what is asked.
        k: how many candidates.
        adapt: whether the session learns from the query.

    Returns:
        One match for each hit.
    """
    hits = session.answer([query], adapt=adapt).top(k)
    rows = zip(hits.ids[0], hits.scores[0].tolist(), strict=True)
    return [Match(id, _document(documents, id), score) for id, score in rows]


def _document(documents: Mapping[Any, Any], id: Id) -> Any:
    try:
        return documents[id]
    except KeyError:
        raise BadInput(
            f"the gallery has the candidate {id!r}, but `documents` has no text for it: give one "
            "for every id of the gallery."
        ) from None
