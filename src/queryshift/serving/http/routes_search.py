"""POST /v1/collections/{collection}/search."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.routing import Route

from ..answering.queries import Raw
from ..answering.search import SearchRequest
from ..errors import Malformed
from ..settings import LimitSettings
from .request_context import allowed, asked_once, context_of
from .schemas import SearchAnswer, SearchBody, described, raw_queries, read_body

router = APIRouter(tags=["search"])
PATH = "/v1/collections/{collection}/search"
JSON = "application/json"
SCHEMA = {"schema": SearchBody.model_json_schema()}
BODY = {"requestBody": {"required": True, "content": {JSON: SCHEMA}}}


@router.post(PATH, openapi_extra=BODY, responses=described(SearchAnswer))
async def search(collection: str, request: Request) -> Response:
    """Answer one query or many; the tenant learns from them unless told not to."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Malformed(f'the content type is "{kind}", expected {JSON}.')
    content = await request.body()
    body = read_body(SearchBody, content)
    adapt = body.adapt and not body.trial
    service = allowed(request, "adapt" if adapt else "read", collection, body.tenant)
    given = [*([] if body.query is None else [body.query]), *(body.queries or [])]
    queries = raw_queries(given, service.collection.modality)
    _check(body, queries, context_of(request).settings.limits)
    call = SearchRequest(
        body.tenant,
        request.state.request_id,
        queries,
        body.k,
        adapt,
        [ids or [] for ids in body.exclude or [None] * len(queries)],
        body.compare,
        body.trial,
    )
    told = await asked_once(request, content, lambda: service.search(call))
    return Response(to_json(told), media_type=JSON)


async def _search(request: Request) -> Response:
    request.scope["route"] = direct  # for the log and the metrics, as FastAPI does
    return await search(request.path_params["collection"], request)


direct = Route(PATH, _search, methods=["POST"])
"""The same past FastAPI, whose way to a handler takes a third of all that a request costs."""


def _check(body: SearchBody, queries: Sequence[Raw], limits: LimitSettings) -> None:
    """Refuse what is too much, or nothing."""
    count, k, exclude = len(queries), body.k, body.exclude
    if not queries:
        raise Malformed('got no query: send "query" or "queries".')
    if count > limits.queries:
        raise Malformed(f"got {count} queries, at most {limits.queries} at once.")
    if k > limits.hits:
        raise Malformed(f"k is {k}, at most {limits.hits}.")
    if count * k > limits.hits_in_all:
        raise Malformed(
            f"{count} queries times k = {k} are more than {limits.hits_in_all:,} hits: send fewer "
            "queries at once, or a smaller k."
        )
    if exclude is not None and len(exclude) != count:
        raise Malformed(f"got exclusions for {len(exclude)} of {count} queries: one each.")
    if sum(len(ids or ()) for ids in exclude or ()) > limits.exclude:
        raise Malformed(f"at most {limits.exclude:,} ids are left out in a request.")
