"""What the service refuses, each with its HTTP status, and how clients are told."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from queryshift.errors import EngineLost, Error

MEDIA_TYPE = "application/problem+json"
INTERNAL = "something went wrong here, and the log says what, under this request's id."


class Refused(Error):
    """A request that is not carried out; `status` is its HTTP status."""

    status = HTTPStatus.BAD_REQUEST
    headers: dict[str, str] = {}  # noqa: RUF012 - read only


class NotFound(Refused):
    """There is no collection, tenant, snapshot or answer of this name."""

    status = HTTPStatus.NOT_FOUND


class Conflict(Refused):
    """An idempotency key or a snapshot that belongs to something else."""

    status = HTTPStatus.CONFLICT


class Malformed(Refused):
    """A body that is not what the route takes."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class TooLarge(Refused):
    """A body over the limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class HeadersTooLarge(Refused):
    """Headers over the limit; the connection is closed."""

    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class TooSlow(Refused):
    """A body that does not come; the connection is closed."""

    status = HTTPStatus.REQUEST_TIMEOUT
    headers = {"Connection": "close"}  # noqa: RUF012 - read only


class Unauthorised(Refused):
    """A token is needed, or the one given is not known."""

    status = HTTPStatus.UNAUTHORIZED

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.headers = {"WWW-Authenticate": "Bearer"}


class Forbidden(Refused):
    """The token, or the operator's settings, do not allow this."""

    status = HTTPStatus.FORBIDDEN


class DiskFull(Refused):
    """Something could not be written; answers go on."""

    status = HTTPStatus.INSUFFICIENT_STORAGE


class StoreTrouble(Refused):
    """The database cannot be read or written now; what is in memory goes on."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": "1"}  # noqa: RUF012 - read only


class Damaged(Refused):
    """What is stored of a tenant cannot be read; others go on."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR


class Ending(Refused):
    """The server is ending; another may take its place."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": "1", "Connection": "close"}  # noqa: RUF012 - read only


class TooManyConnections(Refused):
    """As many connections are open as may be; this one is closed."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": "1", "Connection": "close"}  # noqa: RUF012 - read only


class TooBusy(Refused):
    """A queue is full, or a token asks too often.

    Args:
        told: what is full, in a sentence.
        retry_after: seconds until it is worth asking again.
    """

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, told: str, retry_after: float = 1.0) -> None:
        super().__init__(told, retry_after)  # so that it can be pickled
        self.headers = {"Retry-After": str(max(1, round(retry_after)))}

    def __str__(self) -> str:
        return str(self.args[0])


def status_of(error: Error) -> HTTPStatus:
    """The HTTP status of an error of the library."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, EngineLost):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.UNPROCESSABLE_ENTITY


def problem(error: Exception, request_id: str | None = None) -> dict[str, Any]:
    """What a client is told of an error; of a bug of ours, only that there was one."""
    status = status_of(error) if isinstance(error, Error) else HTTPStatus.INTERNAL_SERVER_ERROR
    detail = str(error) if isinstance(error, Error) else INTERNAL
    kind = type(error).__name__ if isinstance(error, Error) else "InternalError"
    told = {
        "type": f"urn:queryshift:{kind}",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
    }
    return told if request_id is None else told | {"request_id": request_id}
