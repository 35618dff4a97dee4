"""Bodies that answers have, as OpenAPI describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from ..settings import Mode
from .request_bodies import Id


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
    delay: float | None = Field(
        description="seconds from the last group being complete until it was learnt"
    )
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


def described(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of its answers."""
    problem = {"model": Problem, "description": "refused"}
    return {200: {"model": model}, "4XX": problem, "5XX": problem}
