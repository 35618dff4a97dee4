"""Bodies that requests may have, and that answers have, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..answering.queries import Raw, raw_query
from ..errors import Malformed
from ..settings import Mode, Name

Id = str | int
Exclude = list[list[Id] | None]
Body = TypeVar("Body", bound="Strict")
NO_BASE64 = "this is no base64: send the file's bytes, without a prefix; addresses are not fetched"
JSON = "application/json"
MANY = 4096  # queries, looked at while a body is read; limits.queries is stricter


class Strict(BaseModel):
    """A body: unknown fields are refused, so that a misspelt one does not pass unseen."""

    model_config = ConfigDict(extra="forbid", strict=True, val_json_bytes="base64")


class Query(Strict):
    """One query; files are in base64, which is decoded while the body is read."""

    text: str | None = Field(None, description="a text")
    image: bytes | None = Field(None, description="an image file in base64")
    audio: bytes | None = Field(None, description="an audio file in base64")
    vector: list[float] | None = Field(None, description="a vector of the gallery's dimension")


class SearchBody(Strict):
    """A search: one query or many."""

    tenant: Name = Field("default", description="whose session answers")
    query: Query | None = Field(None, description="one query")
    queries: list[Query] | None = Field(None, max_length=MANY, description="or many")
    k: int = Field(10, ge=1, description="hits per query")
    adapt: bool = Field(True, description="whether the tenant learns from them")
    compare: bool = Field(False, description="whether both answers are told, in any mode")
    trial: bool = Field(False, description="whether nothing of it is counted, kept or learnt")
    exclude: Exclude | None = Field(None, max_length=MANY, description="ids to leave out of each")


class ReferenceBody(Strict):
    """A sample of reference queries."""

    queries: list[Query] = Field(min_length=2, max_length=MANY, description="when all is well")


class CorruptBody(Strict):
    """One query to corrupt, or many."""

    query: Query | None = None
    queries: list[Query] | None = Field(None, max_length=256)
    corruption: str = Field(max_length=64)
    severity: int = Field(ge=1, le=5)


class NameBody(Strict):
    """The name of a snapshot."""

    name: Name


class ModeBody(Strict):
    """The mode of a tenant."""

    mode: Mode


class Click(Strict):
    """What was clicked of one query's answer."""

    query: int = Field(0, ge=0, description="its place in the request")
    ids: list[Id] = Field(max_length=1000)


class FeedbackBody(Strict):
    """Clicks on the answers of a request."""

    request_id: str = Field(max_length=64)
    clicks: list[Click] = Field(max_length=1000)


class Problem(BaseModel):
    """Why something was refused: application/problem+json."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what was got, what was expected, what to do")
    request_id: str | None = None


class Hit(BaseModel):
    """A candidate that was found."""

    id: Id
    score: float


class Answer(BaseModel):
    """The answer to one query."""

    hits: list[Hit] = Field(description="best first")
    source: list[Hit] | None = Field(description="of the unadapted model, where it was asked too")
    adapted: list[Hit] | None = Field(None, description="of the adapted model, with compare")
    by: Literal["source", "adapted", "both"] | None = Field(
        description="whose answer it is: scores of both are probabilities, others similarities"
    )
    error: Problem | None = Field(description="why this query was not answered")


class SearchAnswer(BaseModel):
    """The answer to a search."""

    request_id: str = Field(description="by which feedback refers to it")
    collection: str
    tenant: str
    mode: Mode
    answers: list[Answer] = Field(description="one for each query, in order")
    adapt: bool = Field(description="whether the tenant learns from them")


class SnapshotTold(BaseModel):
    """A snapshot."""

    name: str
    time: str
    batches: int = Field(description="learnt or looked at when it was taken")


class TenantTold(BaseModel):
    """The report of a tenant."""

    tenant: str
    mode: Mode
    method: str
    queries: int
    batches: int
    updates: int
    drops: int = Field(description="groups given up since learning was behind")
    delay: float | None = Field(description="seconds that the last group waited to be learnt")
    pending: int = Field(description="queries that are gathered or wait to be learnt")
    created: str
    last_seen: str
    report: dict[str, Any] = Field(description="settings in force and the latest statistics")
    shift: dict[str, float | None] | None
    guard: dict[str, Any]
    snapshots: list[SnapshotTold]
    clicks: dict[str, Any] | None


class HistoryTold(BaseModel):
    """Rows of a tenant's history."""

    rows: list[dict[str, Any]]
    next: int = Field(description="the number to ask from next time")


async def read_body(kind: type[Body], request: Request) -> Body:
    """The body of a request, or a refusal that says what is wrong with it."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != JSON:
        raise Malformed(f'the content type is "{sent}", expected {JSON}.')
    try:
        read: Body = kind.model_validate_json(await request.body())
        return read
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Malformed(sentence(first)) from None


def sentence(wrong: Mapping[str, Any]) -> str:
    """One of the things that are wrong with a body, a path or a parameter."""
    place = ".".join(str(part) for part in wrong["loc"] if part != "body") or "the body"
    message = NO_BASE64 if wrong["type"] == "bytes_invalid_encoding" else str(wrong["msg"])
    return f"{place}: {message[0].lower()}{message[1:].rstrip('.')}."


def raw_queries(queries: Sequence[Query], modality: str) -> list[Raw]:
    """The queries of a body, as a collection of this kind of query takes them."""
    return [raw_query(query.model_dump(exclude_none=True), modality) for query in queries]


def taken(body: type[BaseModel]) -> dict[str, Any]:
    """What a route's documentation says of a body that the route reads itself."""
    content = {JSON: {"schema": body.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def described(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of its answers."""
    problem = {"model": Problem, "description": "refused"}
    return {200: {"model": model}, "4XX": problem, "5XX": problem}
