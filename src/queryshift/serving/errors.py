"""What the service refuses, each with its HTTP status, and how clients are told."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from queryshift.errors import EngineLost, Error

MEDIA_TYPE = "application/problem+json"
INTERNAL = "something went wrong here, and the log says what, under this request's id."
CLOSE = {"Connection": "close"}
LATER = {"Retry-After": "1"}


class Refused(Error):
    """A request that is not carried out; each subclass names its HTTP status and headers."""

    status = HTTPStatus.BAD_REQUEST
    headers: Mapping[str, str] = MappingProxyType({})

    def __init_subclass__(
        cls, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        cls.status = HTTPStatus(status or cls.status)
        cls.headers = headers or cls.headers


class NotFound(Refused, status=404):
    """There is no collection, tenant, snapshot or answer of this name."""


class Conflict(Refused, status=409):
    """An idempotency key or a snapshot that belongs to something else."""


class Malformed(Refused, status=422):
    """A body that is not what the route takes."""


class TooLarge(Refused, status=413):
    """A body over the limit."""


class HeadersTooLarge(Refused, status=431):
    """Headers over the limit; the connection is closed."""


class TooSlow(Refused, status=408, headers=CLOSE):
    """A body that does not come; the connection is closed."""


class Unauthorised(Refused, status=401, headers={"WWW-Authenticate": "Bearer"}):
    """A token is needed, or the one given is not known."""


class Forbidden(Refused, status=403):
    """The token, or the operator's settings, do not allow this."""


class StoreTrouble(Refused, status=503, headers=LATER):
    """The database cannot be read or written now; what is in memory goes on."""


class DiskFull(StoreTrouble, status=507):
    """The folder of the store cannot be written; answers go on."""


class Damaged(Refused, status=500):
    """What is stored of a tenant cannot be read; others go on."""


class Ending(Refused, status=503, headers=LATER | CLOSE):
    """The server is ending; another may take its place."""


class TooManyConnections(Refused, status=503, headers=LATER | CLOSE):
    """As many connections are open as may be; this one is closed."""


class TooBusy(Refused, status=429):
    """A queue is full, or a token asks too often.

    Args:
        told: what is full, in a sentence.
        retry_after: seconds until it is worth asking again.
    """

    def __init__(self, told: str, retry_after: float = 1.0) -> None:
        super().__init__(told)
        self.headers = {"Retry-After": str(max(1, round(retry_after)))}


def problem(error: Exception, request_id: str | None = None) -> dict[str, Any]:
    """What a client is told of an error; of a bug of ours, only that there was one."""
    kind, detail, status = type(error).__name__, str(error), HTTPStatus.UNPROCESSABLE_ENTITY
    if isinstance(error, Refused):
        status = error.status
    elif isinstance(error, EngineLost):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    elif not isinstance(error, Error):
        kind, detail, status = "InternalError", INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR
    told = {
        "type": f"urn:queryshift:{kind}",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
    }
    return told if request_id is None else told | {"request_id": request_id}
