"""Bodies that requests may have."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import Malformed
from ..settings import Mode, Name

Id = str | int
Body = TypeVar("Body", bound="Strict")
File = TypeVar("File", str, bytes)
MANY = 4096  # queries, looked at while a body is read; limits.queries is stricter
NO_BASE64 = (
    "this is no base64 ({}): send the file's bytes in base64, without a prefix; "
    "addresses are not fetched"
)


class Strict(BaseModel):
    """A body: unknown fields are refused, so that a misspelt one does not pass unseen."""

    model_config = ConfigDict(extra="forbid", strict=True, val_json_bytes="base64")


class Query(Strict, Generic[File]):
    """One query; files are in base64, as text or decoded while the body is read."""

    text: str | None = Field(None, description="a text")
    image: File | None = Field(None, description="a picture file in base64")
    audio: File | None = Field(None, description="a sound file in base64")
    vector: list[float] | None = Field(None, description="a vector of the gallery's dimension")


class SearchBody(Strict):
    """A search: one query or many."""

    tenant: Name = Field("default", description="whose session answers")
    query: Query[bytes] | None = Field(None, description="one query")
    queries: list[Query[bytes]] | None = Field(None, max_length=MANY, description="or many")
    k: int = Field(10, ge=1, description="hits per query")
    adapt: bool = Field(True, description="whether the tenant learns from them")
    compare: bool = Field(False, description="whether both answers are told, in any mode")
    trial: bool = Field(
        False, description="whether it is only looked at: nothing is counted, kept or learnt"
    )
    exclude: list[list[Id] | None] | None = Field(
        None, max_length=MANY, description="for each query, ids to leave out"
    )


class OrdinaryBody(Strict):
    """A sample of ordinary queries."""

    queries: list[Query[str]] = Field(
        min_length=2, max_length=MANY, description="as they come when all is well"
    )


class CorruptBody(Strict):
    """One query to corrupt, or many."""

    query: Query[str] | None = None
    queries: list[Query[str]] | None = Field(None, max_length=256)
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


def read_body(kind: type[Body], content: bytes) -> Body:
    """A body of this kind, or a refusal that says what is wrong with it."""
    try:
        read: Body = kind.model_validate_json(content)
        return read
    except ValidationError as error:
        raise Malformed(sentence(error)) from None


def sentence(error: ValidationError) -> str:
    """The first thing that is wrong with a body."""
    first: dict[str, Any] = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    message = str(first["msg"])
    if first["type"] == "bytes_invalid_encoding":
        message = NO_BASE64.format(first["ctx"]["encoding_error"].rstrip("."))
    return f"{place}: {message[0].lower()}{message[1:].rstrip('.')}."
