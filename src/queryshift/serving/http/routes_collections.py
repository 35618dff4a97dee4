"""Collections: what they are, queries to try, candidates, corruption, ordinary queries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ..corrupting import corruption_names
from ..errors import Malformed
from .request_context import allowed, caller_of, context_of
from .schemas import CorruptBody, OrdinaryBody, raw_queries

router = APIRouter(prefix="/v1/collections", tags=["collections"])
MOST_SAMPLES = 256


@router.get("")
async def collections(request: Request) -> dict[str, Any]:
    """All collections that the caller may read."""
    caller, names = caller_of(request), context_of(request).service.names()
    names = [name for name in names if caller.may("read", name)]
    return {"collections": [await _about(request, name) for name in names]}


@router.get("/{collection}")
async def collection(collection: str, request: Request) -> dict[str, Any]:
    """One collection."""
    return await _about(request, collection)


@router.get("/{collection}/samples")
async def samples(
    collection: str, request: Request, n: Annotated[int, Query(ge=1, le=MOST_SAMPLES)] = 8
) -> Response:
    """Queries to try."""
    found = await allowed(request, "read", collection).samples(caller_of(request).name, n)
    return _json({"samples": found})


@router.get("/{collection}/candidates/{candidate:path}")
async def candidate(collection: str, candidate: str, request: Request) -> dict[str, Any]:
    """How a candidate is shown."""
    return await allowed(request, "read", collection).candidate(candidate)


@router.post("/{collection}/corrupt")
async def corrupt(collection: str, body: CorruptBody, request: Request) -> Response:
    """One query or many, corrupted."""
    service = allowed(request, "read", collection)
    given = body.queries or ([] if body.query is None else [body.query])
    if not given:
        raise Malformed('got no query: send "query" or "queries".')
    queries = raw_queries(given, service.collection.modality)
    about = (caller_of(request).name, queries, body.corruption, body.severity)
    made = await service.corrupted(*about)
    return _json({"queries": made} if body.queries else {"query": made[0]})


@router.put("/{collection}/ordinary")
async def ordinary(collection: str, body: OrdinaryBody, request: Request) -> dict[str, Any]:
    """Put a sample of ordinary queries in force for all tenants."""
    service = allowed(request, "admin", collection, "*")
    queries = raw_queries(body.queries, service.collection.modality)
    return {"queries": await service.set_ordinary(queries)}


async def _about(request: Request, name: str) -> dict[str, Any]:
    service, readable = allowed(request, "read", name), caller_of(request).readable(name)
    about = await service.about()
    if readable is not None:  # who may read only some tenants is not told of others
        about["tenants"] = len(await service.tenants("", len(readable), readable))
    return about | {"corruptions": corruption_names(service.collection.modality)}


def _json(told: Any) -> Response:
    """An answer of many pictures, past FastAPI's own way, which would hold everybody up."""
    return Response(to_json(told), media_type="application/json")
