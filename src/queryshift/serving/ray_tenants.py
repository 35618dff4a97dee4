"""A front door's view of owners on a Ray cluster; it keeps nothing that must not be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from queryshift.errors import BadInput, unknown
from queryshift.support.optional import need

from .owner import Owner
from .ray_calls import RayCalls
from .ray_owner import shared_settings
from .ray_ring import Ring
from .refusals import NotFound, OwnerLost, Refused
from .settings import ServeSettings

WATCH_S = 1.0  # between looks at the owners
logger = logging.getLogger("queryshift.serving")


class RayTenants:
    """All tenants, each with one owner among named actors of a Ray cluster.

    Args:
        settings: of the server.
        address: of the cluster.
    """

    def __init__(self, settings: ServeSettings, address: str) -> None:
        self._settings = settings.model_copy(update={"data": settings.data.resolve()})
        self._ring = Ring(settings.ray.owners)
        self._calls = RayCalls(self._settings, address)
        self._states: list[dict[str, Any] | None] = [None] * settings.ray.owners
        self._watching: list[asyncio.Task[None]] = []

    @property
    def trouble(self) -> str | None:
        """Why an owner's disk cannot be written."""
        return next(
            (state["trouble"] for state in self._states if state and state["trouble"]), None
        )

    def names(self) -> list[str]:
        """The collections."""
        return list(self._settings.collections)

    def owner(self, collection: str, tenant: str | None = None) -> Owner:
        """Who owns a tenant; without one, all owners of the collection as if they were one."""
        if collection not in self._settings.collections:
            raise NotFound(str(unknown("collection", collection, self._settings.collections)))
        if tenant is None:
            return cast(Owner, _Together(self._calls, collection))
        number = self._ring.owner(collection, tenant)
        return cast(Owner, _Remote(self._calls, number, (collection, tenant)))

    def healthy(self) -> bool:
        """Whether some owner answers: others come back by themselves."""
        return any(state is not None for state in self._states)

    async def counted(self, owner: int) -> bytes:
        """What one owner counts."""
        if not 0 <= owner < self._settings.ray.owners:
            raise NotFound(f"there is no owner {owner}, only 0 to {self._settings.ray.owners - 1}.")
        return cast(bytes, await self._calls.ask(owner, "counted"))

    async def start(self) -> None:
        """Wait for all owners, refuse those of other settings, and watch them."""
        numbers = range(self._settings.ray.owners)
        self._states = list(await asyncio.gather(*map(self._calls.first_state, numbers)))
        for state in self._states:
            if state and state["settings"] != shared_settings(self._settings):
                raise BadInput(
                    "the owners on the cluster run with other settings: end them first, with "
                    "queryshift serve FILE --ray ADDRESS --stop-owners."
                )
        self._watching = [asyncio.create_task(self._watch(number)) for number in numbers]

    async def stop(self) -> None:
        """End the door; the owners go on."""
        for task in self._watching:
            task.cancel()

    async def stop_owners(self) -> None:
        """Let all owners write everything, and end them."""
        await asyncio.gather(*map(self._calls.end, range(self._settings.ray.owners)))

    async def _watch(self, number: int) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                self._states[number] = await self._calls.ask(number, "status")
            except Refused:
                if self._states[number] is not None:
                    logger.warning("owner %d does not answer", number)
                self._states[number] = None


class _Remote:
    """The calls of an `Owner`, by the same names, carried out by the actor that owns a tenant."""

    def __init__(self, calls: RayCalls, number: int, about: tuple[str, str | None]) -> None:
        self._carry_out = partial(calls.carry_out, number, about)

    def __getattr__(self, method: str) -> Any:
        return partial(self._carry_out, method)


class _Together:
    """Calls about a whole collection: told by all owners, or by the first that answers."""

    def __init__(self, calls: RayCalls, collection: str) -> None:
        self._owners = [
            _Remote(calls, number, (collection, None)) for number in range(calls.owners)
        ]

    async def about(self) -> dict[str, Any]:
        told = await self._all("about")
        return {**told[0], "tenants": sum(one["tenants"] for one in told)}

    async def tenants(
        self, after: str, limit: int, among: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        rows = [row for told in await self._all("tenants", after, limit, among) for row in told]
        return sorted(rows, key=lambda row: str(row["tenant"]))[:limit]

    async def set_ordinary(self, queries: Sequence[Any]) -> int:
        return int((await self._all("set_ordinary", queries))[0])

    async def _all(self, method: str, *args: Any) -> list[Any]:
        return await asyncio.gather(*(getattr(one, method)(*args) for one in self._owners))

    def __getattr__(self, method: str) -> Any:
        return partial(self._first, method)

    async def _first(self, method: str, *args: Any) -> Any:
        for one in self._owners[:-1]:
            try:
                return await getattr(one, method)(*args)
            except OwnerLost:
                continue
        return await getattr(self._owners[-1], method)(*args)


def stop_owners(settings: ServeSettings, address: str) -> None:
    """End all owners on a cluster, everything written."""
    need("ray", "ray", "owners on a cluster")
    asyncio.run(RayTenants(settings, address).stop_owners())
