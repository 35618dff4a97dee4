"""A Ray actor that owns shares of the tenants: its own, and those whose owners fell silent."""

from __future__ import annotations

import asyncio
import logging.config
import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from queryshift.errors import Error
from queryshift.support.optional import need

from .idempotency import Key, Remembered
from .json_logs import log_config
from .metrics import Metrics
from .process import prepare
from .ray_lease import shared_folder
from .ray_shares import RaySharing, Shares
from .refusals import OwnerLost
from .settings import ServeSettings
from .tenants import Tenants

GIVEN_UP = 256  # calls that are remembered not to begin


class RayOwner:
    """One owner; when its process dies, others take its share, and Ray starts it again as a spare.

    Args:
        settings: of the server, as `model_dump` gives them.
        number: of this owner, and of the share that it is meant for.
    """

    def __init__(self, settings: Mapping[str, Any], number: int) -> None:
        self._settings = ServeSettings.model_validate(settings)
        logging.config.dictConfig(log_config())
        prepare(self._settings)
        self._folder = shared_folder(self._settings.data)
        self._ray = need("ray", "ray", "owners on a cluster")
        again = self._ray.get_runtime_context().was_current_actor_reconstructed
        self._shares = Shares(self._settings, number, spare=bool(again))
        self._metrics, self._remembered = Metrics(), Remembered()
        self._running: dict[str, asyncio.Task[Any] | None] = {}
        self._given_up: deque[str] = deque(maxlen=GIVEN_UP)
        self._refusal: Error | None = None
        self._ending = False
        try:
            self._tenants = Tenants(self._settings, self._metrics)
        except Error as error:  # told to the doors: Ray would start it again and again
            self._refusal = error
            return
        for name in self._tenants.names():
            self._tenants.owner(name).share(RaySharing(self._shares, name))
        self._starting: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None

    async def call(
        self,
        about: tuple[str, str | None],
        method: str,
        args: Sequence[Any],
        key: tuple[Key, bytes] | None,
        call_id: str = "",
    ) -> tuple[bool, Any]:
        """What a method of `Owner` gives, or the error of the library that it raises.

        Args:
            about: the collection and the tenant, or None.
            method: its name.
            args: its arguments.
            key: the idempotency key and a digest of the body, if the client sent one.
            call_id: by which it can be given up.
        """
        await self._started()
        collection, tenant = about
        try:
            if self._ending:
                raise OwnerLost("this owner is ending: ask again.")
            if call_id in self._given_up:
                raise OwnerLost("nobody waits for this any more.")
            self._running[call_id] = asyncio.current_task()
            self._check(collection, tenant)
            work = partial(getattr(self._tenants.owner(collection), method), *args)
            told = await (work() if key is None else self._remembered.once(*key, work))
            self._check(collection, tenant)  # it may have been frozen meanwhile
            return True, told
        except Error as error:
            return False, error
        finally:
            self._running.pop(call_id, None)

    async def give_up(self, call_id: str) -> None:
        """End a call whose client is gone, also one that has not begun yet."""
        task = self._running.get(call_id)
        if task is None:
            self._given_up.append(call_id)
        else:
            task.cancel()

    async def status(self) -> dict[str, Any]:
        """What it holds, under which settings, and how its disk is."""
        if self._refusal is None:
            await self._started()
        return {
            "settings": shared_settings(self._settings),
            "refusal": None if self._refusal is None else str(self._refusal),
            "terms": self._shares.terms,
            "pid": os.getpid(),
            "trouble": None if self._refusal else self._tenants.trouble,
        }

    async def counted(self) -> bytes:
        """Its metrics."""
        return self._metrics.text()

    async def stop(self) -> None:
        """Answer what is under way, learn what waits, write everything, give the shares back."""
        if self._refusal is not None:
            return
        await self._started()
        self._ending = True
        under_way = [task for task in self._running.values() if task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=self._settings.drain_seconds / 2)
        await self._tenants.stop()
        if self._holding is not None:
            self._holding.cancel()
        await self._shares.give_back()

    def _check(self, collection: str, tenant: str | None) -> None:
        if tenant is not None:
            RaySharing(self._shares, collection).check(tenant)

    async def _started(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await self._starting

    async def _start(self) -> None:
        await self._tenants.start()
        await self._know_own()
        self._holding = asyncio.create_task(self._shares.hold(self._know_own, self._end))

    def _end(self, number: int) -> None:
        """End the process of another owner; Ray starts it again, as a spare."""
        self._ray.kill(self._ray.get_actor(actor_name(number)), no_restart=False)

    async def _know_own(self) -> None:
        for name in self._tenants.names():
            await self._tenants.owner(name).know_own()


def actor_name(number: int) -> str:
    """The name by which an owner is found on the cluster."""
    return f"owner-{number}"


def shared_settings(settings: ServeSettings) -> str:
    """What owners and front doors must have in common, as text."""
    told: str = settings.model_dump_json(
        include={"data", "collections", "limits", "queues", "tenants", "ray"}
    )
    return told
