"""Errors as application/problem+json, in the library's own sentences."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from queryshift.errors import Error

from .errors import status_of

MEDIA_TYPE = "application/problem+json"
INTERNAL = "something went wrong here, and the log says what, under this request's id."


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
