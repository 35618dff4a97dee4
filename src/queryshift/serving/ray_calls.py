"""Calls from a front door to the named actors that own the tenants."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from queryshift.support.optional import need

from .front_door import KEY
from .ray_holders import Holders
from .ray_owner import RayOwner, actor_name
from .refusals import OwnerLost
from .settings import ServeSettings

AT_ONCE = 4096  # calls that an owner takes up; its own queues refuse before


class RayCalls:
    """One named actor for each owner, made by whoever asks first and then found by its name.

    Args:
        settings: of the server, its folder as all machines know it.
        address: of the cluster.
    """

    def __init__(self, settings: ServeSettings, address: str) -> None:
        self._ray = need("ray", "ray", "owners on a cluster")
        self._settings, self.holders = settings, Holders(settings.ray.owners)
        self._ray.init(
            address=address,
            namespace=settings.ray.namespace,
            log_to_driver=False,
            logging_level="error",
        )
        self._actors = [self._actor(number) for number in range(settings.ray.owners)]

    async def carry_out(
        self, share: int, about: tuple[str, str | None], method: str, *args: Any
    ) -> Any:
        """What a method of a share's owner gives; its refusals are raised here."""
        number = self.holders.owner(share)
        return await self.of_owner(number, about, method, *args)

    async def of_owner(
        self, number: int, about: tuple[str, str | None], method: str, *args: Any
    ) -> Any:
        """What a method of an owner gives; given up when that owner falls silent."""
        call_id = uuid4().hex
        work = self.ask(number, "call", about, method, args, KEY.get(), call_id)
        try:
            fine, told = await self.holders.unless_lost(number, work)
        except asyncio.CancelledError:  # Ray's own cancelling does not always arrive
            self._actors[number].give_up.remote(call_id)
            raise
        if not fine:
            raise told
        return told

    async def ask(self, number: int, method: str, *args: Any, seconds: float | None = None) -> Any:
        """What an actor answers; where it is gone or slow, a refusal to come back later.

        When it is cancelled, because the client is gone, so is the call.

        Args:
            number: of the owner.
            method: of the actor.
            args: its arguments.
            seconds: that it may take; None: as long as any call.
        """
        asked = getattr(self._actors[number], method).remote(*args)
        try:
            return await asyncio.wait_for(_told(asked), seconds or self._settings.ray.call_seconds)
        except (asyncio.CancelledError, TimeoutError) as error:
            self._ray.cancel(asked, recursive=False)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise OwnerLost(f"owner {number} takes too long: ask again later.") from None
        except self._ray.exceptions.ActorDiedError:
            self._actors[number] = await asyncio.to_thread(self._actor, number)
            raise OwnerLost(f"owner {number} has died and is started again.") from None
        except self._ray.exceptions.RayTaskError:  # a bug of ours, in the owner
            raise
        except self._ray.exceptions.RayError as error:  # it is away, or what it told was lost
            raise OwnerLost(f"owner {number} does not answer: ask again later.") from error

    async def first_state(self, number: int) -> dict[str, Any]:
        """The state of an owner, which may have to load its model first."""
        while True:
            try:
                state: dict[str, Any] = await self.ask(number, "status")
                return state
            except OwnerLost:
                await asyncio.sleep(1)

    async def end(self, number: int) -> None:
        """Let an owner write everything, then end it for good."""
        await _told(self._actors[number].stop.remote())
        self._ray.kill(self._actors[number], no_restart=True)

    def _actor(self, number: int) -> Any:
        made = self._ray.remote(RayOwner).options(
            name=actor_name(number),
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=0,  # a call that may have taught is not sent again behind our back
            max_concurrency=AT_ONCE,
            num_cpus=0,  # so that the machines that are left have room for it
            scheduling_strategy="SPREAD",
        )
        return made.remote(self._settings.model_dump(mode="json", exclude={"tokens"}), number)


async def _told(asked: Any) -> Any:
    return await asked
