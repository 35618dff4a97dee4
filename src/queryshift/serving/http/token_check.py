"""Tokens are looked at before anything else of a request is read."""

from __future__ import annotations

from typing import Any

from fastapi import Depends
from fastapi.security import HTTPBearer

from ..errors import TooBusy
from ..metrics import Metrics
from ..settings import ServeSettings
from .tokens import Tokens

BEARER = Depends(HTTPBearer(auto_error=False, description="needed where the server has tokens"))
"""Says in OpenAPI that a route takes a token; it is checked before any route is."""

OPEN = ("/healthz", "/readyz", "/openapi.json", "/")


class TokenCheck:
    """Refuses callers without a known token, or who ask too often; notes who calls.

    Args:
        app: the application behind it.
        settings: with the tokens.
        metrics: what is counted.
    """

    def __init__(self, app: Any, settings: ServeSettings, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._tokens = Tokens(settings.tokens)
        self._open = (*OPEN, "/metrics") if settings.open_metrics else OPEN

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on with its caller, or refuse it."""
        if scope["type"] == "http" and not self._is_open(scope["path"]):
            header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            caller = scope["state"]["caller"] = self._tokens.caller(header)
            try:
                caller.check_rate()
            except TooBusy:
                self._metrics.refused.labels("rate").inc()
                raise
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._open or path.startswith("/page/")
