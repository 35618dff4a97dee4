"""Around every request: an id, a log line in JSON, a measure, and errors as problem+json."""

from __future__ import annotations

import json
import logging
import re
import time
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from queryshift.errors import Error

from ..errors import MEDIA_TYPE, Malformed, Refused, problem
from ..json_values import iso
from ..metrics import Metrics
from .schemas import sentence

logger = logging.getLogger("queryshift.serving.requests")
_GIVEN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
TOLD = ("request_id", "tenant", "collection", "caller", "route", "status", "ms", "session", "event")
HUNG_UP = 499  # as nginx logs it: nobody reads it


class RequestLog:
    """The outermost layer: whatever happens within becomes an answer and a log line.

    Args:
        app: the application behind it.
        metrics: what is counted.
    """

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and tell what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, started, status = _request_id(scope), time.perf_counter(), HUNG_UP
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self._app(scope, receive, named)
        except ClientDisconnect:
            self._metrics.hangups.inc()
        except Exception as error:
            if not isinstance(error, Error):
                logger.exception("a request failed", extra={"request_id": request_id})
            if status == HUNG_UP:  # nothing was sent yet
                told = problem(error, request_id)
                more = error.headers if isinstance(error, Refused) else None
                await JSONResponse(told, told["status"], more, MEDIA_TYPE)(scope, receive, named)
        self._log(scope, status, time.perf_counter() - started)

    def _log(self, scope: Any, status: int, seconds: float) -> None:
        state, route = scope["state"], getattr(scope.get("route"), "path", "unknown")
        self._metrics.requests.labels(route, f"{status // 100}xx").observe(seconds)
        about = {name: state.get(name) for name in ("request_id", "collection", "tenant")}
        about |= {"route": route, "status": status, "ms": round(1000 * seconds, 2)}
        about["caller"] = getattr(state.get("caller"), "name", None)
        logger.info("%s %s %d", scope["method"], route, status, extra=about)


async def refuse(request: Request, error: Exception) -> Response:
    """Raise what FastAPI refuses as one of our refusals."""
    if isinstance(error.__cause__, Refused):  # ours, raised while the framework read a body
        raise error.__cause__
    if isinstance(error, RequestValidationError):
        raise Malformed(sentence(error.errors()[0])) from None
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else 400)
    refused = Refused(f"{request.method} {request.url.path}: {status.phrase.lower()}.")
    refused.status = status
    raise refused from None


def _request_id(scope: Any) -> str:
    """The client's own id where it is a plain one, else a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _GIVEN_ID.fullmatch(given) else uuid4().hex


class JsonLines(logging.Formatter):
    """A record as JSON: time, level, logger, message, and the fields that it has of `TOLD`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        known = vars(record)
        line |= {name: known[name] for name in TOLD if known.get(name) is not None}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_config() -> dict[str, Any]:
    """The configuration of uvicorn's loggers and of ours."""
    level = {"handlers": ["lines"], "level": "INFO", "propagate": False}
    lines = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.{JsonLines.__name__}"}},
        "handlers": {"lines": lines},
        "loggers": {"uvicorn": level, "queryshift": level},
    }
