"""Deleting: a tenant with all that is stored of it, or one of its snapshots."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from ..errors import NotFound
from ..settings import NAME_PATTERN
from .request_context import context_of

router = APIRouter(prefix="/v1/collections/{collection}/tenants", tags=["tenants"])
Tenant = Annotated[str, Path(pattern=NAME_PATTERN)]


@router.delete("/{tenant}", status_code=204)
async def delete(collection: str, tenant: Tenant, request: Request) -> None:
    """Delete a tenant: state, snapshots, history, events, clicks, idempotency keys."""
    context = context_of(request)
    context.allow(request, "admin", collection, tenant)
    owner = context.tenants.collection(collection, tenant)
    context.remembered.forget(collection, tenant)
    if not await owner.delete(tenant):
        raise NotFound(f'there is no tenant "{tenant}".')


@router.delete("/{tenant}/snapshots/{snapshot}", status_code=204)
async def delete_snapshot(
    collection: str, tenant: Tenant, snapshot: Tenant, request: Request
) -> None:
    """Delete a snapshot."""
    context = context_of(request)
    context.allow(request, "admin", collection, tenant)
    owner = context.tenants.collection(collection, tenant)
    if not await owner.delete_snapshot(tenant, snapshot):
        raise NotFound(f'"{tenant}" has no snapshot "{snapshot}".')
