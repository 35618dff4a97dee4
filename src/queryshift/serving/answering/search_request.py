"""What a route asks of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from queryshift.galleries.hits import Id

from .queries import Raw


@dataclass(frozen=True)
class SearchRequest:
    """A search.

    Attributes:
        tenant: whose session answers.
        request_id: by which feedback finds the answers again.
        queries: as they came; one that could not be read is the sentence that says why.
        count: hits per query.
        adapt: whether the tenant learns from them.
        exclude: ids to leave out, for each query.
        compare: whether both answers are wanted, in any mode.
        trial: whether nothing of it is counted or kept.
    """

    tenant: str
    request_id: str
    queries: Sequence[Raw]
    count: int
    adapt: bool
    exclude: Sequence[Sequence[Id]]
    compare: bool = False
    trial: bool = False
