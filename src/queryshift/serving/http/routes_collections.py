"""Collections: search, what they are, queries to try, candidates, corruption, reference queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.routing import Route

from ..answering.queries import Raw
from ..answering.search import SearchRequest
from ..errors import Malformed
from ..samples import corruption_names
from ..settings import LimitSettings
from . import schemas
from .request_context import allowed, asked_once, caller_of, context_of

router = APIRouter(prefix="/v1/collections", tags=["collections"])
SEARCH = "/{collection}/search"
MOST_SAMPLES = 256
ASKED, SAMPLE = schemas.taken(schemas.SearchBody), schemas.taken(schemas.ReferenceBody)


@router.post(SEARCH, openapi_extra=ASKED, responses=schemas.described(schemas.SearchAnswer))
async def search(collection: str, request: Request) -> Response:
    """Answer one query or many; the tenant learns from them unless told not to."""
    body = await schemas.read_body(schemas.SearchBody, request)
    adapt = body.adapt and not body.trial
    service = allowed(request, "adapt" if adapt else "read", collection, body.tenant)
    given = [*([] if body.query is None else [body.query]), *(body.queries or [])]
    queries = schemas.raw_queries(given, service.collection.modality)
    _check(body, queries, context_of(request).settings.limits)
    exclude = [ids or [] for ids in body.exclude or [None] * len(queries)]
    how = (queries, body.k, adapt, exclude, body.compare, body.trial)
    call = SearchRequest(body.tenant, request.state.request_id, *how)
    return _json(await asked_once(request, lambda: service.search(call)))


async def _search(request: Request) -> Response:
    request.scope["route"] = direct  # for the log and the metrics, as FastAPI does
    return await search(request.path_params["collection"], request)


# the same past FastAPI, whose way to a handler takes a third of all that a request costs
direct = Route(router.prefix + SEARCH, _search, methods=["POST"])


def _check(body: schemas.SearchBody, queries: Sequence[Raw], limits: LimitSettings) -> None:
    """Refuse what is too much, or nothing."""
    count, k, exclude = len(queries), body.k, body.exclude
    if not queries:
        raise Malformed('got no query: send "query" or "queries".')
    if count > limits.queries:
        raise Malformed(f"got {count} queries, at most {limits.queries} at once.")
    if k > limits.hits:
        raise Malformed(f"k is {k}, at most {limits.hits}.")
    if count * k > limits.hits_in_all:
        most = f"more than {limits.hits_in_all:,} hits"
        raise Malformed(f"{count} queries times k = {k} are {most}: send fewer, or a smaller k.")
    if exclude is not None and len(exclude) != count:
        raise Malformed(f"got exclusions for {len(exclude)} of {count} queries: one each.")
    if sum(len(ids or ()) for ids in exclude or ()) > limits.exclude:
        raise Malformed(f"at most {limits.exclude:,} ids are left out in a request.")


@router.get("")
async def collections(request: Request) -> dict[str, Any]:
    """All collections that the caller may read."""
    caller, names = caller_of(request), context_of(request).service.names
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


@router.post("/{collection}/corrupt", openapi_extra=schemas.taken(schemas.CorruptBody))
async def corrupt(collection: str, request: Request) -> Response:
    """One query or many, corrupted."""
    body = await schemas.read_body(schemas.CorruptBody, request)
    service = allowed(request, "read", collection)
    given = body.queries or ([] if body.query is None else [body.query])
    if not given:
        raise Malformed('got no query: send "query" or "queries".')
    queries = schemas.raw_queries(given, service.collection.modality)
    caller = caller_of(request).name
    made = await service.corrupted(caller, queries, body.corruption, body.severity)
    return _json({"queries": made} if body.queries else {"query": made[0]})


@router.put("/{collection}/reference", openapi_extra=SAMPLE)
@router.put("/{collection}/ordinary", openapi_extra=SAMPLE, deprecated=True)  # its former name
async def reference(collection: str, request: Request) -> dict[str, Any]:
    """Put a sample of reference queries in force for all tenants."""
    body = await schemas.read_body(schemas.ReferenceBody, request)
    service = allowed(request, "admin", collection, "*")
    queries = schemas.raw_queries(body.queries, service.collection.modality)
    return {"queries": await service.set_reference(queries)}


async def _about(request: Request, name: str) -> dict[str, Any]:
    service, readable = allowed(request, "read", name), caller_of(request).readable(name)
    about = await service.about()
    if readable is not None:  # who may read only some tenants is not told of others
        about["tenants"] = len(await service.tenants("", len(readable), readable))
    return about | {"corruptions": corruption_names(service.collection.modality)}


def _json(told: Any) -> Response:
    """An answer past FastAPI's own way, which would hold everybody up where it is large."""
    return Response(to_json(told), media_type=schemas.JSON)
