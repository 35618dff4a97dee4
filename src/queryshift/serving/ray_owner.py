"""A Ray actor that owns its share of the tenants, from its lease on."""

from __future__ import annotations

import asyncio
import logging.config
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from queryshift.errors import Error

from .idempotency import Key, Remembered
from .json_logs import log_config
from .metrics import Metrics
from .process import prepare
from .ray_lease import Lease
from .ray_ring import Ring
from .refusals import Conflict
from .settings import ServeSettings
from .tenants import Tenants


class RayOwner:
    """One owner; Ray starts it again on another node when its own dies.

    Args:
        settings: of the server, as `model_dump` gives them.
        number: of this owner.
    """

    def __init__(self, settings: Mapping[str, Any], number: int) -> None:
        self._settings = ServeSettings.model_validate(settings)
        logging.config.dictConfig(log_config())
        prepare(self._settings)
        self._number, self._ring = number, Ring(self._settings.ray.owners)
        self._lease = Lease(self._settings.data, number)
        self._metrics, self._remembered = Metrics(), Remembered()
        self._tenants = Tenants(self._settings, self._metrics)
        for name in self._tenants.names():
            mine = partial(self._owns, name)
            self._tenants.owner(name).share({"owner": number, "term": self._lease.term}, mine)
        self._starting: asyncio.Task[None] | None = None

    async def call(
        self,
        about: tuple[str, str | None],
        method: str,
        args: Sequence[Any],
        key: tuple[Key, bytes] | None,
    ) -> tuple[bool, Any]:
        """What a method of `Owner` gives, or the error of the library that it raises.

        Args:
            about: the collection and the tenant, or None.
            method: its name.
            args: its arguments.
            key: the idempotency key and a digest of the body, if the client sent one.
        """
        await self._started()
        collection, tenant = about
        try:
            if tenant is not None and not self._owns(collection, tenant):
                raise Conflict(f'owner {self._number} does not own "{tenant}": restart this door.')
            work = partial(getattr(self._tenants.owner(collection), method), *args)
            return True, await (work() if key is None else self._remembered.once(*key, work))
        except Error as error:
            return False, error

    async def status(self) -> dict[str, Any]:
        """Where it runs, under which settings, and how its disk is."""
        await self._started()
        return {
            "settings": shared_settings(self._settings),
            "term": self._lease.term,
            "pid": os.getpid(),
            "trouble": self._tenants.trouble,
        }

    async def counted(self) -> bytes:
        """Its metrics."""
        return self._metrics.text()

    async def stop(self) -> None:
        """Learn what waits and write everything."""
        await self._started()
        await self._tenants.stop()

    def _owns(self, collection: str, tenant: str) -> bool:
        return self._ring.owner(collection, tenant) == self._number

    async def _started(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._tenants.start())
        await self._starting


def shared_settings(settings: ServeSettings) -> str:
    """What owners and front doors must have in common, as text."""
    told: str = settings.model_dump_json(
        include={"data", "collections", "limits", "queues", "tenants", "ray"}
    )
    return told
