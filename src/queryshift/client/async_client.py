"""`AsyncClient`: the same calls from coroutines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from . import calls
from .calls import Ask
from .queries import Query
from .results import (
    ClickMeans,
    Collection,
    HistoryRow,
    Id,
    SearchResult,
    Snapshot,
    Tenant,
    TenantSummary,
)
from .retries import Retries
from .transport import AsyncTransport, Connection


class AsyncClient:
    """Searches one collection of a service from coroutines; its calls are those of `Client`.

    Args:
        url: where the service is, such as "http://127.0.0.1:8000".
        collection: the collection that is searched.
        token: sent as a bearer token, where the service wants one.
        timeout: seconds for one try.
        retries: how often a call is sent again, or how often and how patiently.

    Examples:
        >>> import asyncio
        >>> async def ask():
        ...     async with AsyncClient(url, "tangram") as client:
        ...         found = await client.search([picture], k=3, adapt=False)
        ...         return len(found.ids[0])
        >>> asyncio.run(ask())
        3
    """

    def __init__(
        self,
        url: str,
        collection: str,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int | Retries = 4,
    ) -> None:
        patience = Retries(retries) if isinstance(retries, int) else retries
        self._name = collection
        self._transport = AsyncTransport(Connection(url, token, timeout, patience))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._transport.close()

    async def search(
        self,
        queries: Sequence[Query],
        k: int = 10,
        *,
        tenant: str = "default",
        adapt: bool = True,
        compare: bool = False,
        exclude: Sequence[Sequence[Id]] | None = None,
        key: str | None = None,
    ) -> SearchResult:
        """As `Client.search`."""
        ask = Ask(tenant, k, adapt, compare, exclude)
        return await self._transport.send(calls.search(self._name, queries, ask, key))

    async def feedback(
        self, request_id: str, clicks: Mapping[int, Sequence[Id]], *, tenant: str = "default"
    ) -> ClickMeans:
        """As `Client.feedback`."""
        return await self._transport.send(calls.feedback(self._name, tenant, request_id, clicks))

    async def collections(self) -> list[Collection]:
        """As `Client.collections`."""
        return await self._transport.send(calls.collections())

    async def collection(self) -> Collection:
        """As `Client.collection`."""
        return await self._transport.send(calls.collection(self._name))

    async def ordinary(self, queries: Sequence[Query]) -> int:
        """As `Client.ordinary`."""
        return await self._transport.send(calls.ordinary(self._name, queries))

    async def tenants(self) -> list[TenantSummary]:
        """As `Client.tenants`."""
        rows, after = await self._transport.send(calls.tenants(self._name, None))
        while after is not None:
            more, after = await self._transport.send(calls.tenants(self._name, after))
            rows += more
        return rows

    async def tenant(self, tenant: str = "default") -> Tenant:
        """As `Client.tenant`."""
        return await self._transport.send(calls.tenant(self._name, tenant))

    async def history(self, tenant: str = "default", since: int = 0) -> list[HistoryRow]:
        """As `Client.history`."""
        rows: list[HistoryRow] = []
        while more := await self._transport.send(calls.history(self._name, tenant, since)):
            rows, since = rows + more, more[-1].batch
        return rows

    async def set_mode(self, mode: str, tenant: str = "default") -> Tenant:
        """As `Client.set_mode`."""
        return await self._transport.send(calls.change(self._name, tenant, "mode", {"mode": mode}))

    async def reset(self, tenant: str = "default") -> Tenant:
        """As `Client.reset`."""
        return await self._transport.send(calls.change(self._name, tenant, "reset"))

    async def undo(self, tenant: str = "default") -> Tenant:
        """As `Client.undo`."""
        return await self._transport.send(calls.change(self._name, tenant, "undo"))

    async def snapshot(self, name: str, tenant: str = "default") -> Snapshot:
        """As `Client.snapshot`."""
        return await self._transport.send(calls.snapshot(self._name, tenant, name))

    async def snapshots(self, tenant: str = "default") -> list[Snapshot]:
        """As `Client.snapshots`."""
        return await self._transport.send(calls.snapshots(self._name, tenant))

    async def rollback(self, name: str, tenant: str = "default") -> Tenant:
        """As `Client.rollback`."""
        return await self._transport.send(
            calls.change(self._name, tenant, "rollback", {"name": name})
        )
