"""The client of `queryshift serve`: typed calls whose retries do not teach twice.

Needs the extra `client` (httpx), neither torch nor numpy.

Imports: `errors`. Start with `sync_client.py`; `calls.py` has the routes, `queries.py` how a query
is sent, `results.py` what comes back, `transport.py` when a call is sent again.
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
from .sync_client import Client

__all__ = [
    "AsyncClient",
    "ClickMeans",
    "Client",
    "Collection",
    "HistoryRow",
    "Hit",
    "QueryResult",
    "SearchResult",
    "Snapshot",
    "Tenant",
    "TenantSummary",
]
