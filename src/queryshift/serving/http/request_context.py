"""What every route needs: who calls, whether they may, and whose tenant it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from hashlib import blake2b
from typing import Any, cast

from fastapi import Request
from starlette.requests import ClientDisconnect

from ..answering.queues import LOOK, pause
from ..collection_service import CollectionService
from ..errors import Forbidden, Refused, TooBusy
from ..metrics import Metrics
from ..service import Service
from ..settings import Scope, ServeSettings
from .access import Caller
from .idempotency import IdempotentRequests, Key, Told, Work


class ServerContext:
    """What the routes of a running server share.

    Args:
        settings: of the server.
        service: who answers.
        metrics: what is counted.
    """

    def __init__(self, settings: ServeSettings, service: Service, metrics: Metrics) -> None:
        self.settings, self.service, self.metrics = settings, service, metrics
        self.idempotent, self.looking = IdempotentRequests(service.store), asyncio.Lock()


def context_of(request: Request) -> ServerContext:
    """The context of the application that was asked."""
    return cast(ServerContext, request.app.state.context)


async def in_turn(request: Request) -> None:
    """Let who only reads begin in a pause of the answers, one after another.

    Python has one lock: a read takes it from the thread that answers at every call of torch.
    """
    if request.method == "GET":
        async with context_of(request).looking:
            await asyncio.sleep(LOOK)
            await pause()


def caller_of(request: Request) -> Caller:
    """Who calls, as the token check found."""
    return cast(Caller, request.state.caller)


def check_allowed(request: Request, scope: Scope, collection: str, tenant: str | None) -> None:
    """Refuse a caller whose token does not allow this.

    Args:
        request: the request; the log is told what it is about.
        scope: what it needs.
        collection: where; "*" is all of them.
        tenant: whose; "*" is everybody's, None what belongs to no tenant.
    """
    caller, routed = caller_of(request), request.headers.get("x-queryshift-tenant")
    if routed is not None and tenant is not None and routed != tenant:
        told = (
            f'the header X-Queryshift-Tenant is "{routed[:64]}", the request\'s tenant "{tenant}"'
        )
        raise Refused(f"{told}: send the same name in both.")
    request.state.collection, request.state.tenant = collection, tenant
    if not caller.may(scope, collection, tenant):
        where = f'"{collection}"' if tenant is None else f'tenant "{tenant}" of "{collection}"'
        raise Forbidden(f'the token "{caller.name}" lacks the scope {scope} for {where}.')


def allowed(
    request: Request, scope: Scope, collection: str, tenant: str | None = None
) -> CollectionService:
    """The collection, for a caller whose token allows this; see `check_allowed`."""
    check_allowed(request, scope, collection, tenant)
    return context_of(request).service.collection(collection)


async def asked_once(request: Request, work: Work) -> Told:
    """What the work gives: given up when the client leaves, remembered under its key.

    Args:
        request: the request, its body read.
        work: starts the work.
    """
    try:
        return await unless_hung_up(request, carried_out(request, work))
    except TooBusy:
        context_of(request).metrics.refused.labels("queue").inc()
        raise


async def carried_out(request: Request, work: Work) -> Told:
    """What the work gives, also where the client has left; the arguments are as above."""
    name = request.headers.get("idempotency-key")
    if name is None:
        return await work()
    caller, about = caller_of(request).name, (request.state.collection, request.state.tenant)
    digest = blake2b(await request.body(), digest_size=16).digest()  # another is refused
    key = Key(caller, request.url.path, *about, name, digest)
    return await context_of(request).idempotent.once(key, work)


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, Told]) -> Told:
    """What the work gives; cancelled when the client leaves or we are. The body must be read."""
    async with asyncio.timeout(None) as patience:
        leaving = asyncio.ensure_future(_left(request, patience))
        try:
            return await work
        except asyncio.CancelledError:
            if patience.expired():
                raise ClientDisconnect from None
            raise
        finally:
            leaving.cancel()


async def _left(request: Request, patience: asyncio.Timeout) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    patience.reschedule(0)
