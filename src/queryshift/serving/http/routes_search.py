"""POST /v1/collections/{collection}/search."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import Route

from ..answering.queries import FILES, Raw, raw_query
from ..answering.search import SearchRequest
from ..errors import Malformed
from ..settings import LimitSettings
from .request_context import allowed, asked_once, context_of
from .schemas import SearchAnswer, SearchBody, described, read_body

router = APIRouter(tags=["search"])
PATH = "/v1/collections/{collection}/search"
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": SearchBody.model_json_schema()},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "request": {"type": "string", "description": "the JSON without queries"},
                        "query": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    },
                }
            },
        },
    }
}


@router.post(PATH, openapi_extra=BODY, responses=described(SearchAnswer))
async def search(collection: str, request: Request) -> Response:
    """Answer one query or many; the tenant learns from them unless told not to."""
    limits = context_of(request).settings.limits
    body, files, content = await _read(request, limits)
    adapt = body.adapt and not body.trial
    service = allowed(request, "adapt" if adapt else "read", collection, body.tenant)
    queries = _queries(body, files, service.collection.modality)
    _check(body, queries, limits)
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
    return Response(to_json(told), media_type="application/json")


async def _search(request: Request) -> Response:
    request.scope["route"] = direct  # for the log and the metrics, as FastAPI does
    return await search(request.path_params["collection"], request)


direct = Route(PATH, _search, methods=["POST"])
"""The same past FastAPI, whose way to a handler takes a third of all that a request costs."""


async def _read(request: Request, limits: LimitSettings) -> tuple[SearchBody, list[bytes], bytes]:
    """The body, the files that came with it, and all of it as bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = await request.body()
    if kind == "multipart/form-data":
        return await _read_form(request, limits, content)
    if kind != "application/json":
        raise Malformed(
            f'the content type is "{kind}", expected application/json or multipart/form-data.'
        )
    return read_body(SearchBody, content), [], content


async def _read_form(
    request: Request, limits: LimitSettings, content: bytes
) -> tuple[SearchBody, list[bytes], bytes]:
    most = {"max_files": limits.queries, "max_fields": 4, "max_part_size": limits.body_bytes}
    try:
        async with request.form(**most) as form:
            told, uploads = form.get("request", "{}"), form.getlist("query")
            if not isinstance(told, str) or any(isinstance(one, str) for one in uploads):
                raise Malformed(
                    'the form needs a field "request" of JSON, and files named "query".'
                )
            files = [await one.read() for one in uploads if not isinstance(one, str)]
    except HTTPException as error:
        raise Malformed(f"the form cannot be read: {error.detail}.") from None
    except (LookupError, UnicodeError) as error:  # its header names the text's encoding
        raise Malformed(f"the form cannot be read: {error}.") from None
    return read_body(SearchBody, told.encode()), files, content


def _queries(body: SearchBody, files: Sequence[bytes], modality: str) -> list[Raw]:
    """The queries of a body and its files, in order."""
    given = [*([] if body.query is None else [body.query]), *(body.queries or [])]
    if files and given and len(given) != len(files):
        raise Malformed(f"got {len(given)} queries and {len(files)} files: one file for each.")
    told = [one.model_dump(exclude_none=True) for one in given] or [{} for _ in files]
    kind = next((part for part in modality.split("+") if part in FILES), None)
    if files and kind is None:
        raise Malformed(f"got files, but queries of this collection are {modality}.")
    for parts, file in zip(told, files, strict=False):
        parts[str(kind)] = file
    return [raw_query(parts, modality) for parts in told]


def _check(body: SearchBody, queries: Sequence[Raw], limits: LimitSettings) -> None:
    """Refuse what is too much, or nothing."""
    if not queries:
        raise Malformed('got no query: send "query", "queries" or files.')
    if len(queries) > limits.queries:
        raise Malformed(f"got {len(queries)} queries, at most {limits.queries} at once.")
    if body.k > limits.hits:
        raise Malformed(f"k is {body.k}, at most {limits.hits}.")
    if len(queries) * body.k > limits.hits_in_all:
        raise Malformed(
            f"{len(queries)} queries times k = {body.k} are more than {limits.hits_in_all:,} hits: "
            "send fewer queries at once, or a smaller k."
        )
    if body.exclude is not None:
        if len(body.exclude) != len(queries):
            raise Malformed(
                f"got exclusions for {len(body.exclude)} of {len(queries)} queries: one each."
            )
        if sum(len(ids or ()) for ids in body.exclude) > limits.exclude:
            raise Malformed(f"at most {limits.exclude:,} ids are left out in a request.")
