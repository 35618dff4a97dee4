"""What FastAPI itself refuses, as problem+json like everything else."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..errors import MEDIA_TYPE, Malformed, Refused, problem


async def refused_by_framework(request: Request, error: Exception) -> JSONResponse:
    """Unknown addresses and verbs; what we refused while the framework read a body is ours."""
    if isinstance(error.__cause__, Refused):
        return _answer(request, error.__cause__)
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus(400)
    refused = Refused(f"{request.method} {request.url.path}: {status.phrase.lower()}.")
    refused.status = status
    return _answer(request, refused)


async def malformed(request: Request, error: Exception) -> JSONResponse:
    """Bodies, paths and parameters that are not what a route takes."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ()) if part != "body") or "the body"
    message = str(first.get("msg", "it cannot be read"))
    return _answer(request, Malformed(f"{place}: {message[0].lower()}{message[1:].rstrip('.')}."))


def _answer(request: Request, refused: Refused) -> JSONResponse:
    told = problem(refused, request.state.request_id)
    return JSONResponse(told, told["status"], refused.headers, MEDIA_TYPE)
