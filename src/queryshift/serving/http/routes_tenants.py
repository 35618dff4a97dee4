"""Tenants: reports, history, what an operator does with what they have learnt, deletion."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request

from ..collection_service import CollectionService
from ..errors import Malformed, NotFound
from ..settings import NAME_PATTERN, Scope
from . import schemas
from .request_context import allowed, caller_of, carried_out, context_of
from .schemas import FeedbackBody, ModeBody, NameBody

router = APIRouter(prefix="/v1/collections/{collection}/tenants", tags=["tenants"])
Tenant = Annotated[str, Path(pattern=NAME_PATTERN)]
Past = Annotated[str, Query(pattern=r"^[A-Za-z0-9._@-]{0,64}$")]
Most = Annotated[int, Query(ge=1, le=1000)]
Rows = Annotated[int, Query(ge=1, le=5000)]
Since = Annotated[int, Query(ge=0)]
Report = dict[str, Any]
TOLD = schemas.described(schemas.TenantTold)


def needs(scope: Scope) -> Any:
    """The collection of a route about a tenant, for a caller who may do this with the tenant."""

    async def service(collection: str, tenant: Tenant, request: Request) -> CollectionService:
        return allowed(request, scope, collection, tenant)

    return Depends(service)


Read = Annotated[CollectionService, needs("read")]
Adapt = Annotated[CollectionService, needs("adapt")]
Admin = Annotated[CollectionService, needs("admin")]


@router.get("")
async def tenants(collection: str, request: Request, after: Past = "", limit: Most = 100) -> Report:
    """Tenants by name; `next` is where to go on."""
    service = allowed(request, "read", collection)
    listed = await service.tenants(after, limit, caller_of(request).readable(collection))
    return {"tenants": listed, "next": listed[-1]["tenant"] if len(listed) == limit else None}


@router.get("/{tenant}", responses=TOLD)
async def tenant(service: Read, tenant: Tenant) -> Report:
    """A tenant's report."""
    return await service.tenant(tenant)


@router.get("/{tenant}/history", responses=schemas.described(schemas.HistoryTold))
async def history(service: Read, tenant: Tenant, since: Since = 0, limit: Rows = 1000) -> Report:
    """Statistics of a tenant's batches after number `since`; `next` is the one to ask from."""
    rows = await service.history(tenant, since, limit)
    return {"rows": rows, "next": rows[-1]["batch"] if rows else since}


@router.get("/{tenant}/latest")
async def latest(service: Read, tenant: Tenant) -> Report:
    """The latest queries with both answers, where the operator allows keeping them."""
    return {"queries": await service.latest(tenant)}


@router.post("/{tenant}/reset", responses=TOLD)
async def reset(service: Admin, tenant: Tenant, request: Request) -> Report:
    """Forget all that was learnt."""
    return await carried_out(request, lambda: service.reset(tenant))


@router.post("/{tenant}/undo", responses=TOLD)
async def undo(service: Admin, tenant: Tenant, request: Request) -> Report:
    """Return to the state before the last learnt batch."""
    return await carried_out(request, lambda: service.undo(tenant))


@router.get("/{tenant}/snapshots")
async def snapshots(service: Read, tenant: Tenant) -> Report:
    """The tenant's snapshots, oldest first."""
    return {"snapshots": await service.snapshots(tenant)}


@router.post("/{tenant}/snapshots", responses=schemas.described(schemas.SnapshotTold))
async def snapshot(service: Admin, tenant: Tenant, body: NameBody, request: Request) -> Report:
    """Keep what was learnt under a name; the answer comes when it is on disk."""
    return await carried_out(request, lambda: service.snapshot(tenant, body.name))


@router.post("/{tenant}/rollback", responses=TOLD)
async def rollback(service: Admin, tenant: Tenant, body: NameBody, request: Request) -> Report:
    """Return to a snapshot."""
    return await carried_out(request, lambda: service.rollback(tenant, body.name))


@router.post("/{tenant}/mode", responses=TOLD)
async def mode(service: Admin, tenant: Tenant, body: ModeBody, request: Request) -> Report:
    """Switch between live, shadow and frozen."""
    return await carried_out(request, lambda: service.set_mode(tenant, body.mode))


@router.post("/{tenant}/feedback")
async def feedback(service: Adapt, tenant: Tenant, body: FeedbackBody, request: Request) -> Report:
    """Count clicks on both answers of a request; one that comes again counts once."""
    most = context_of(request).settings.limits.clicks
    if sum(len(click.ids) for click in body.clicks) > most:
        raise Malformed(f"at most {most:,} clicks are taken at once: send them in parts.")
    clicks = [(click.query, click.ids) for click in body.clicks]
    return await carried_out(request, lambda: service.feedback(tenant, body.request_id, clicks))


@router.delete("/{tenant}", status_code=204)
async def delete(service: Admin, tenant: Tenant) -> None:
    """Delete a tenant: state, snapshots, history, events, clicks, idempotency keys."""
    if not await service.delete(tenant):
        raise NotFound(f'there is no tenant "{tenant}".')


@router.delete("/{tenant}/snapshots/{snapshot}", status_code=204)
async def delete_snapshot(service: Admin, tenant: Tenant, snapshot: Tenant) -> None:
    """Delete a snapshot."""
    if not await service.delete_snapshot(tenant, snapshot):
        raise NotFound(f'"{tenant}" has no snapshot "{snapshot}".')
