"""Around every request: an id, a log line in JSON, a measure, and errors as problem+json."""

from __future__ import annotations

import json
import logging
import re
import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from queryshift.errors import Error

from ..errors import MEDIA_TYPE, Refused, problem
from ..metrics import Metrics
from .request_context import HungUp

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
        except HungUp:
            self._metrics.hangups.inc()
        except Exception as error:
            if not isinstance(error, Error):
                logger.exception("a request failed", extra={"request_id": request_id})
            if status == HUNG_UP:  # nothing was sent yet
                await _send_problem(named, error, request_id)
        self._log(scope, status, time.perf_counter() - started)

    def _log(self, scope: Any, status: int, seconds: float) -> None:
        state = scope["state"]
        route = getattr(scope.get("route"), "path", "unknown")
        self._metrics.requests.labels(route, f"{status // 100}xx").observe(seconds)
        logger.info(
            "%s %s %d",
            scope["method"],
            route,
            status,
            extra={
                "request_id": state["request_id"],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 2),
                "caller": getattr(state.get("caller"), "name", None),
                **{name: state.get(name) for name in ("collection", "tenant")},
            },
        )


def _request_id(scope: Any) -> str:
    """The client's own id where it is a plain one, else a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _GIVEN_ID.fullmatch(given) else uuid4().hex


async def _send_problem(send: Any, error: Exception, request_id: str) -> None:
    told = problem(error, request_id)
    more = error.headers if isinstance(error, Refused) else {}
    headers = [(name.lower().encode(), value.encode()) for name, value in more.items()]
    content = json.dumps(told).encode()
    length = (b"content-length", str(len(content)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": told["status"],
            "headers": [(b"content-type", MEDIA_TYPE.encode()), length, *headers],
        }
    )
    await send({"type": "http.response.body", "body": content})


class JsonLines(logging.Formatter):
    """A record as JSON: time, level, logger, message, and the fields that it has of `TOLD`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in TOLD:
            if (value := getattr(record, name, None)) is not None:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_config() -> dict[str, Any]:
    """The configuration of uvicorn's loggers and of ours."""
    level = {"handlers": ["lines"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.{JsonLines.__name__}"}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "stream": "ext://sys.stdout",
            }
        },
        "loggers": {"uvicorn": level, "queryshift": level},
    }
