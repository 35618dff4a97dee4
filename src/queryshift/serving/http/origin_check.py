"""Other sites' pages may not call: their browsers say where they come from."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, urlsplit

from ..errors import Forbidden, Refused
from ..settings import ServeSettings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_NAME = ("/healthz", "/readyz")  # asked by address, by what watches the process


class OriginCheck:
    """Refuses pages of other origins, and names that a page may have been lured here by.

    Without tokens a page of another site could ask a server at the loopback address in the name
    of whoever reads it; the browser sends an Origin header with what it asks for.

    Args:
        app: the application behind it.
        settings: which origins and host names are allowed.
    """

    def __init__(self, app: Any, settings: ServeSettings) -> None:
        self._app, self._origins = app, set(settings.origins)
        named = settings.hosts or ([] if settings.tokens else LOOPBACK)
        self._hosts = {host.lower() for host in named}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse where it comes from."""
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
            self._check(headers, scope["path"])
        await self._app(scope, receive, send)

    def _check(self, headers: dict[str, bytes], path: str) -> None:
        host = headers.get("host", b"").decode("latin-1")
        name = _parsed(f"//{host}").hostname or ""
        if self._hosts and name not in self._hosts and path not in ANY_NAME:
            raise Forbidden(f'"{name}" is no name of this server: the operator sets hosts.')
        origin = headers.get("origin", b"").decode("latin-1")
        if origin and _parsed(origin).netloc != host and origin not in self._origins:
            raise Forbidden(f'pages of "{origin}" may not call: the operator sets origins.')


def _parsed(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise Refused(f'"{address}" is no address ({error}): repair that header.') from None
