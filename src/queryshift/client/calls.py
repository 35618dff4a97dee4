"""The routes of the service as values: what is sent, and how the answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

from .queries import Query, encoded_all
from .results import (
    ClickMeans,
    Collection,
    HistoryRow,
    Id,
    Json,
    SearchResult,
    Snapshot,
    Tenant,
    TenantSummary,
)

T = TypeVar("T")
MOST_ROWS = 1000  # of a tenant's history in one answer


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request and how its answer is read; sent again, it has the same key.

    Attributes:
        verb: GET, POST or PUT.
        path: below the service's address.
        read: from the answer's JSON to a value.
        body: what is sent as JSON.
        params: what follows the question mark.
        key: by which the service knows a call that is sent again.
    """

    verb: str
    path: str
    read: Callable[[Any], T]
    body: Json | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    key: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True)
class Ask:
    """How queries are asked: for whom, how many hits, and whether they teach."""

    tenant: str = "default"
    k: int = 10
    adapt: bool = True
    compare: bool = False
    exclude: Sequence[Sequence[Id]] | None = None


def collections() -> Call[list[Collection]]:
    """All collections."""
    return Call("GET", "/v1/collections", _list_of(Collection.from_json, "collections"))


def collection(name: str) -> Call[Collection]:
    """One collection."""
    return Call("GET", _path(name), Collection.from_json)


def search(name: str, queries: Sequence[Query], ask: Ask, key: str | None) -> Call[SearchResult]:
    """The hits of several queries."""
    body: dict[str, Any] = {"tenant": ask.tenant, "queries": encoded_all(queries)}
    body |= {"k": ask.k, "adapt": ask.adapt}
    if ask.compare:
        body["compare"] = True
    if ask.exclude is not None:
        body["exclude"] = [list(ids) for ids in ask.exclude]
    path = f"{_path(name)}/search"
    return Call("POST", path, SearchResult.from_json, body, key=key or uuid4().hex)


def ordinary(name: str, queries: Sequence[Query]) -> Call[int]:
    """Hand over queries from when all was well."""
    body = {"queries": encoded_all(queries)}
    return Call("PUT", f"{_path(name)}/ordinary", lambda data: int(data["queries"]), body)


def tenants(name: str, after: str | None) -> Call[tuple[list[TenantSummary], str | None]]:
    """One page of the tenants, and where the next one starts."""
    read = _list_of(TenantSummary.from_json, "tenants")
    params = {} if after is None else {"after": after}
    path = f"{_path(name)}/tenants"
    return Call("GET", path, lambda data: (read(data), data.get("next")), params=params)


def tenant(name: str, tenant: str) -> Call[Tenant]:
    """One tenant."""
    return Call("GET", _path(name, tenant), Tenant.from_json)


def history(name: str, tenant: str, since: int) -> Call[list[HistoryRow]]:
    """The next batches of a tenant after one of them."""
    read = _list_of(HistoryRow.from_json, "rows")
    params = {"since": since, "limit": MOST_ROWS}
    return Call("GET", f"{_path(name, tenant)}/history", read, params=params)


def change(name: str, tenant: str, verb: str, body: Json | None = None) -> Call[Tenant]:
    """A change of a tenant ("reset", "undo", "mode", "rollback"), and what it is after it."""
    return Call("POST", f"{_path(name, tenant)}/{verb}", Tenant.from_json, body or {})


def snapshots(name: str, tenant: str) -> Call[list[Snapshot]]:
    """The kept states of a tenant."""
    path = f"{_path(name, tenant)}/snapshots"
    return Call("GET", path, _list_of(Snapshot.from_json, "snapshots"))


def snapshot(name: str, tenant: str, snapshot_name: str) -> Call[Snapshot]:
    """Keep the state of a tenant."""
    body = {"name": snapshot_name}
    return Call("POST", f"{_path(name, tenant)}/snapshots", Snapshot.from_json, body)


def feedback(
    name: str, tenant: str, request_id: str, clicks: Mapping[int, Sequence[Id]]
) -> Call[ClickMeans]:
    """Which hits of an earlier search were clicked."""
    rows = [{"query": query, "ids": list(ids)} for query, ids in clicks.items()]
    body = {"request_id": request_id, "clicks": rows}
    return Call("POST", f"{_path(name, tenant)}/feedback", ClickMeans.from_json, body)


def _path(collection: str, tenant: str | None = None) -> str:
    path = f"/v1/collections/{quote(collection, safe='')}"
    return path if tenant is None else f"{path}/tenants/{quote(tenant, safe='')}"


def _list_of(read: Callable[[Json], T], name: str) -> Callable[[Json], list[T]]:
    return lambda data: [read(row) for row in data[name]]
