"""What every route needs: who calls, whether they may, and whose tenant it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from .idempotency import Remembered
from .metrics import Metrics
from .refusals import Forbidden, TooBusy
from .settings import Scope, ServeSettings
from .tenants import Tenants
from .tokens import Tokens

Value = TypeVar("Value")


class HungUp(Exception):
    """The client is gone: nothing is answered."""


class FrontDoor:
    """Settings, tokens and tenants of a running server.

    Args:
        settings: of the server.
        tenants: who answers.
        metrics: what is counted.
    """

    def __init__(self, settings: ServeSettings, tenants: Tenants, metrics: Metrics) -> None:
        self.settings, self.tenants, self.metrics = settings, tenants, metrics
        self.tokens = Tokens(settings.tokens)
        self.remembered = Remembered()

    def allow(
        self, request: Request, scope: Scope, collection: str = "*", tenant: str = "*"
    ) -> None:
        """Refuse a caller whose token does not allow this, or who asks too often."""
        caller = self.tokens.caller(request.headers.get("authorization"))
        request.state.caller = caller.name
        request.state.collection, request.state.tenant = collection, tenant
        try:
            caller.check_rate()
        except TooBusy:
            self.metrics.refused.labels("rate").inc()
            raise
        if not caller.may(scope, collection, tenant):
            about = f'tenant "{tenant}" of ' if tenant != "*" else ""
            raise Forbidden(
                f'the token "{caller.name}" lacks the scope {scope} for {about}"{collection}".'
            )

    def modality(self, collection: str) -> str:
        """What one query of a collection is."""
        self.tenants.owner(collection)  # refuses one that is not there
        return self.settings.collections[collection].queries

    def may_read(self, request: Request, collection: str, tenant: str) -> bool:
        """Whether the caller may know of a tenant."""
        caller = self.tokens.caller(request.headers.get("authorization"))
        return caller.may("read", collection, tenant)


def door_of(request: Request) -> FrontDoor:
    """The front door of the application that was asked."""
    door: FrontDoor = request.app.state.door
    return door


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, Value]) -> Value:
    """What the work gives; it is cancelled when the client leaves. The body must be read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise HungUp
        return working.result()
    finally:
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
