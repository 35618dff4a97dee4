"""`AsyncClient`: the same calls from coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Self, cast

from . import results
from .core import Core, Outcome, Plan, Request, T, httpx
from .queries import Query
from .results import Id
from .retries import Retries


class AsyncClient:
    """Searches one collection of a service from coroutines; its calls are those of `Client`.

    Args:
        url: where the service is, such as "http://127.0.0.1:8080".
        collection: the collection that is searched.
        token: sent as a bearer token, where the service wants one.
        timeout: seconds for one try.
        retries: how often a call is sent again, or how often and how patiently.

    Examples:
        >>> import asyncio
        >>> async def ask():
        ...     async with AsyncClient(url, "tangram") as client:
        ...         found = await client.search([image], k=3, adapt=False)
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
        self._core = Core(url, collection, token, timeout, retries)
        self._http = httpx.AsyncClient(**self._core.options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

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
    ) -> results.SearchResult:
        """As `Client.search`."""
        asked = (queries, k, tenant, adapt, compare, exclude, key)
        return await self._result(self._core.search(*asked))

    async def feedback(
        self, request_id: str, clicks: Mapping[int, Sequence[Id]], *, tenant: str = "default"
    ) -> results.ClickMeans:
        """As `Client.feedback`."""
        return await self._result(self._core.feedback(tenant, request_id, clicks))

    async def collections(self) -> list[results.Collection]:
        """As `Client.collections`."""
        return await self._result(self._core.collections())

    async def collection(self) -> results.Collection:
        """As `Client.collection`."""
        return await self._result(self._core.collection())

    async def set_reference(self, queries: Sequence[Query]) -> int:
        """As `Client.set_reference`."""
        return await self._result(self._core.set_reference(queries))

    async def tenants(self) -> list[results.TenantSummary]:
        """As `Client.tenants`."""
        return await self._result(self._core.tenants())

    async def tenant(self, tenant: str = "default") -> results.Tenant:
        """As `Client.tenant`."""
        return await self._result(self._core.tenant(tenant))

    async def history(self, tenant: str = "default", since: int = 0) -> list[results.HistoryRow]:
        """As `Client.history`."""
        return await self._result(self._core.history(tenant, since))

    async def set_mode(self, mode: str, tenant: str = "default") -> results.Tenant:
        """As `Client.set_mode`."""
        return await self._result(self._core.change(tenant, "mode", {"mode": mode}))

    async def reset(self, tenant: str = "default") -> results.Tenant:
        """As `Client.reset`."""
        return await self._result(self._core.change(tenant, "reset"))

    async def undo(self, tenant: str = "default") -> results.Tenant:
        """As `Client.undo`."""
        return await self._result(self._core.change(tenant, "undo"))

    async def snapshot(self, name: str, tenant: str = "default") -> results.Snapshot:
        """As `Client.snapshot`."""
        return await self._result(self._core.snapshot(tenant, name))

    async def snapshots(self, tenant: str = "default") -> list[results.Snapshot]:
        """As `Client.snapshots`."""
        return await self._result(self._core.snapshots(tenant))

    async def rollback(self, name: str, tenant: str = "default") -> results.Tenant:
        """As `Client.rollback`."""
        return await self._result(self._core.change(tenant, "rollback", {"name": name}))

    async def _result(self, plan: Plan[T]) -> T:
        """Carry a plan out: send what it yields, wait as long as it says."""
        outcome: Outcome | None = None
        while True:
            try:
                step = plan.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                outcome = await self._send(step)

    async def _send(self, request: Request) -> Outcome:
        try:
            return await self._http.request(**request)
        except httpx.TransportError as error:
            return error
