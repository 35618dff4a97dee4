"""Collections: what they are, queries to try, candidates, corruption, ordinary queries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ..answering.queries import raw_query
from ..corrupting import corruption_names
from ..errors import Malformed
from .request_bodies import CorruptBody, OrdinaryBody
from .request_context import caller_of, context_of

router = APIRouter(prefix="/v1/collections", tags=["collections"])
MOST_SAMPLES = 256


@router.get("")
async def collections(request: Request) -> dict[str, Any]:
    """All collections that the caller may read."""
    caller, names = caller_of(request), context_of(request).tenants.names()
    names = [name for name in names if caller.may("read", name)]
    return {"collections": [await _about(request, name) for name in names]}


@router.get("/{collection}")
async def collection(collection: str, request: Request) -> dict[str, Any]:
    """One collection."""
    context_of(request).allow(request, "read", collection)
    return await _about(request, collection)


@router.get("/{collection}/samples")
async def samples(
    collection: str, request: Request, n: Annotated[int, Query(ge=1, le=MOST_SAMPLES)] = 8
) -> Response:
    """Queries to try."""
    context = context_of(request)
    context.allow(request, "read", collection)
    owner = context.tenants.collection(collection)
    return _json({"samples": await owner.samples(caller_of(request).name, n)})


@router.get("/{collection}/candidates/{candidate:path}")
async def candidate(collection: str, candidate: str, request: Request) -> dict[str, Any]:
    """How a candidate is shown."""
    context = context_of(request)
    context.allow(request, "read", collection)
    return await context.tenants.collection(collection).candidate(candidate)


@router.post("/{collection}/corrupt")
async def corrupt(collection: str, body: CorruptBody, request: Request) -> Response:
    """One query or many, corrupted."""
    context = context_of(request)
    context.allow(request, "read", collection)
    modality = context.modality(collection)
    given = body.queries or ([] if body.query is None else [body.query])
    if not given:
        raise Malformed('got no query: send "query" or "queries".')
    raws = [raw_query(query.model_dump(exclude_none=True), modality) for query in given]
    owner, caller = context.tenants.collection(collection), caller_of(request).name
    made = await owner.corrupted(caller, raws, body.corruption, body.severity)
    return _json({"queries": made} if body.queries else {"query": made[0]})


@router.put("/{collection}/ordinary")
async def ordinary(collection: str, body: OrdinaryBody, request: Request) -> dict[str, Any]:
    """Put a sample of ordinary queries in force for all tenants."""
    context = context_of(request)
    context.allow(request, "admin", collection, "*")
    modality = context.modality(collection)
    raw = [raw_query(query.model_dump(exclude_none=True), modality) for query in body.queries]
    return {"queries": await context.tenants.collection(collection).set_ordinary(raw)}


async def _about(request: Request, name: str) -> dict[str, Any]:
    context = context_of(request)
    owner, readable = context.tenants.collection(name), caller_of(request).readable(name)
    about = await owner.about()
    if readable is not None:  # who may read only some tenants is not told of others
        about["tenants"] = len(await owner.tenants("", len(readable), readable))
    return about | {"corruptions": corruption_names(context.modality(name))}


def _json(told: Any) -> Response:
    """An answer of many pictures, past FastAPI's own way, which would hold everybody up."""
    return Response(to_json(told), media_type="application/json")
