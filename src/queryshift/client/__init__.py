"""The client of `queryshift serve`: typed calls whose retries do not teach twice.

Needs the extra `client` (httpx), neither torch nor numpy.

Imports: `errors`. Start with `core.py`: what is sent, how answers are read, when a call is sent
again. `sync_client.py` and `async_client.py` send it; `queries.py` has how a query is sent,
`results.py` what comes back.
"""

from .async_client import AsyncClient
from .results import (
    ClickMeans,
    Collection,
    HistoryRow,
    Hit,
    QueryResult,
    SearchResult,
    Snapshot,
    Tenant,
    TenantSummary,
)
from .retries import Retries
from .sync_client import Client

__all__ = [
    "AsyncClient",
    "ClickMeans",
    "Client",
    "Collection",
    "HistoryRow",
    "Hit",
    "QueryResult",
    "Retries",
    "SearchResult",
    "Snapshot",
    "Tenant",
    "TenantSummary",
]
