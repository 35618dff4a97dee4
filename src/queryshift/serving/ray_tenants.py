"""A front door's view of owners on a Ray cluster; it keeps nothing that must not be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
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

WATCH_S = 0.5  # between looks at an owner
PING_S = 2.0  # that it may take to answer one
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
        self._watching: list[asyncio.Task[None]] = []

    @property
    def trouble(self) -> str | None:
        """Why an owner's disk cannot be written."""
        states = self._calls.holders.states
        return next((state["trouble"] for state in states if state and state["trouble"]), None)

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
        return bool(self._calls.holders.present())

    async def counted(self, owner: int) -> bytes:
        """What one owner counts."""
        if not 0 <= owner < self._settings.ray.owners:
            raise NotFound(f"there is no owner {owner}, only 0 to {self._settings.ray.owners - 1}.")
        return cast(bytes, await self._calls.ask(owner, "counted"))

    async def start(self) -> None:
        """Wait for all owners, refuse those of other settings, and watch them."""
        numbers = range(self._settings.ray.owners)
        states = await asyncio.gather(*map(self._calls.first_state, numbers))
        for state in states:
            if state["settings"] != shared_settings(self._settings):
                raise BadInput(
                    "the owners on the cluster run with other settings: end them first, with "
                    "queryshift serve FILE --ray ADDRESS --stop-owners."
                )
            if state["refusal"] is not None:
                await self.stop_owners()
                raise BadInput(state["refusal"])
        self._watching = [asyncio.create_task(self._watch(number)) for number in numbers]
        while not self._calls.holders.all_held():
            await asyncio.sleep(WATCH_S)

    async def stop(self) -> None:
        """End the door; the owners go on."""
        for task in self._watching:
            task.cancel()

    async def stop_owners(self) -> None:
        """Let all owners write everything, and end them."""
        await asyncio.gather(*map(self._calls.end, range(self._settings.ray.owners)))

    async def _watch(self, number: int) -> None:
        holders = self._calls.holders
        while True:
            try:
                state = await self._calls.ask(number, "status", seconds=PING_S)
                holders.heard(number, state)
            except Exception as error:  # whatever it is: who looks no more learns of no move
                if not isinstance(error, Refused):
                    logger.exception("owner %d could not be asked", number)
                if holders.silent(number):
                    logger.warning("owner %d does not answer", number)
            await asyncio.sleep(WATCH_S)


class _Remote:
    """The calls of an `Owner`, by the same names, carried out by the actor that owns a tenant."""

    def __init__(self, calls: RayCalls, number: int, about: tuple[str, str | None]) -> None:
        self._carry_out = partial(calls.carry_out, number, about)

    def __getattr__(self, method: str) -> Any:
        return partial(self._carry_out, method)


class _Together:
    """Calls about a whole collection: told by all owners, or by the first that answers."""

    def __init__(self, calls: RayCalls, collection: str) -> None:
        self._calls, self._about = calls, (collection, None)

    async def about(self) -> dict[str, Any]:
        told = await self._all("about")
        return {**told[0], "tenants": sum(one["tenants"] for one in told)}

    async def tenants(
        self, after: str, limit: int, among: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        rows = [row for told in await self._all("tenants", after, limit, among) for row in told]
        return sorted(rows, key=lambda row: str(row["tenant"]))[:limit]

    async def set_ordinary(self, queries: Sequence[Any]) -> int:
        if not self._calls.holders.all_present():
            raise OwnerLost("an owner is missing, and all must know ordinary queries: ask again.")
        return int((await self._all("set_ordinary", queries))[0])

    async def _all(self, method: str, *args: Any) -> list[Any]:
        present = self._calls.holders.present()
        if not present:
            raise OwnerLost("no owner answers: ask again.")
        of_owner = self._calls.of_owner
        work = (of_owner(number, self._about, method, *args) for number in present)
        return await asyncio.gather(*work)

    def __getattr__(self, method: str) -> Any:
        return partial(self._first, method)

    async def _first(self, method: str, *args: Any) -> Any:
        for number in self._calls.holders.present():
            with suppress(OwnerLost):
                return await self._calls.of_owner(number, self._about, method, *args)
        raise OwnerLost("no owner answers: ask again.")


def stop_owners(settings: ServeSettings, address: str) -> None:
    """End all owners on a cluster, everything written."""
    need("ray", "ray", "owners on a cluster")
    asyncio.run(RayTenants(settings, address).stop_owners())
