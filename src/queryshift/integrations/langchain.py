"""A LangChain retriever over a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from queryshift.errors import missing
from queryshift.sessions.session import Session

from .lookup import Match, matches

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import SkipValidation
except ImportError as error:
    raise missing("langchain-core", "langchain", "a LangChain retriever") from error


class SessionRetriever(BaseRetriever):  # type: ignore[misc]
    """Retrieves the documents that a session finds, and lets it adapt to the queries.

    Queries come one at a time: a session with `gather=16` learns from sixteen together.

    Attributes:
        session: answers the queries.
        documents: a text or a `Document` for each id of the session's gallery.
        k: how many documents a query gets.
        adapt: whether the session learns from the queries.
        embed: computes a query's vector if the session takes vectors: `embeddings.embed_query`.
    """

    session: Session
    documents: Annotated[Mapping[Any, Any], SkipValidation]
    k: int = 4
    adapt: bool = True
    embed: Annotated[Callable[[str], Any] | None, SkipValidation] = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = matches(self.session, self.documents, query, self.k, self.adapt, self.embed)
        return [_with_score(match) for match in found]


def _with_score(match: Match) -> Document:
    """Return the document with its score in the metadata."""
    document, score = match.document, {"score": match.score}
    if isinstance(document, Document):
        return document.model_copy(update={"metadata": {**document.metadata, **score}})
    return Document(id=str(match.id), page_content=document, metadata=score)
