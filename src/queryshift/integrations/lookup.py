"""Find the documents of a session's hits for a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from queryshift.encoders.vectors import Vectors
from queryshift.errors import BadInput
from queryshift.galleries.hits import Id
from queryshift.sessions.session import Session

Embed: TypeAlias = Callable[[str], Any]
"""A query's vector: a list, an array or a tensor of numbers."""


class Match(NamedTuple):
    """A hit with its document."""

    id: Id
    document: Any
    score: float


def matches(
    session: Session,
    documents: Mapping[Any, Any],
    query: str,
    k: int,
    adapt: bool,
    embed: Embed | None = None,
) -> list[Match]:
    """Return the best k candidates of one query with their documents, best first.

    Args:
        session: answers the query.
        documents: a text or document for each id of the gallery.
        query: the text of the query.
        k: how many candidates.
        adapt: whether the session learns from the query.
        embed: computes the query's vector if the session takes vectors.

    Returns:
        One match for each hit.
    """
    if embed is None and isinstance(session.encoder, Vectors):
        raise BadInput(
            "the session takes vectors, but the retriever gets text: add a function that makes a "
            "query's vector, embed=embeddings.embed_query."
        )
    asked = query if embed is None else embed(query)
    hits = session.answer([asked], adapt=adapt).top(k)
    rows = zip(hits.ids[0], hits.scores[0].tolist(), strict=True)
    return [Match(id, _document(documents, id), score) for id, score in rows]


def _document(documents: Mapping[Any, Any], id: Id) -> Any:
    try:
        return documents[id]
    except KeyError:
        raise BadInput(
            f"the gallery has the candidate {id!r}, but `documents` has no text for it: add one "
            "for every id of the gallery."
        ) from None
