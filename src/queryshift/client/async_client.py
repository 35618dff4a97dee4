"""`AsyncClient`: the same calls from coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, cast

from .core import Core, Outcome, Plan, Request, T, httpx
from .retries import Retries

Arguments = ParamSpec("Arguments")
Awaited: TypeAlias = Coroutine[Any, Any, T]


def _awaited(
    plan: Callable[Concatenate[Core, Arguments], Plan[T]],
) -> Callable[Concatenate[AsyncClient, Arguments], Awaited[T]]:
    """A call of the core as one of the client's coroutines, with the same arguments."""

    @wraps(plan)
    async def call(client: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs) -> T:
        return await client._result(plan(client._core, *given, **named))

    return call


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

    search = _awaited(Core.search)
    feedback = _awaited(Core.feedback)
    collections = _awaited(Core.collections)
    collection = _awaited(Core.collection)
    set_reference = _awaited(Core.set_reference)
    tenants = _awaited(Core.tenants)
    tenant = _awaited(Core.tenant)
    history = _awaited(Core.history)
    set_mode = _awaited(Core.set_mode)
    reset = _awaited(Core.reset)
    undo = _awaited(Core.undo)
    snapshot = _awaited(Core.snapshot)
    snapshots = _awaited(Core.snapshots)
    rollback = _awaited(Core.rollback)

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
