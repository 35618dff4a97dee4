"""A LlamaIndex retriever over a session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from queryshift.errors import missing
from queryshift.sessions.session import Session

from .lookup import Embed, Match, matches

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing("llama-index-core", "llama-index", "a LlamaIndex retriever") from error


class SessionRetriever(BaseRetriever):  # type: ignore[misc]
    """Retrieves the nodes that a session finds, and lets it adapt to the queries.

    Queries come one at a time: a session with `gather=16` learns from sixteen together.

    Args:
        session: answers the queries.
        documents: a text or a node for each id of the session's gallery.
        k: how many nodes a query gets.
        adapt: whether the session learns from the queries.
        embed: computes a query's vector if the session takes vectors:
            `embed_model.get_query_embedding`.
    """

    def __init__(
        self,
        session: Session,
        documents: Mapping[Any, Any],
        k: int = 4,
        adapt: bool = True,
        embed: Embed | None = None,
    ) -> None:
        super().__init__()
        self.session, self.documents = session, documents
        self.k, self.adapt, self.embed = k, adapt, embed

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = query_bundle.query_str
        found = matches(self.session, self.documents, asked, self.k, self.adapt, self.embed)
        return [NodeWithScore(node=_node(match), score=match.score) for match in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes: list[NodeWithScore] = await asyncio.to_thread(self._retrieve, query_bundle)
        return nodes


def _node(match: Match) -> BaseNode:
    document = match.document
    if isinstance(document, BaseNode):
        return document
    return TextNode(id_=str(match.id), text=document)
