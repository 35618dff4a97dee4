"""More connections than there may be are refused in a sentence: uvicorn's own limit has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .refusals import TooManyConnections

ALWAYS = "/healthz"  # a process is not ended because many ask


@dataclass
class Connections:
    """How many connections are open; the protocol counts them."""

    open: int = 0


class ConnectionLimit:
    """Refuses requests while too many connections are open, and closes theirs.

    Args:
        app: the application behind it.
        connections: how many are open.
        most: how many may be.
    """

    def __init__(self, app: Any, connections: Connections, most: int) -> None:
        self._app, self._connections, self._most = app, connections, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if (
            scope["type"] == "http"
            and self._connections.open > self._most
            and scope["path"] != ALWAYS
        ):
            raise TooManyConnections(
                f"{self._connections.open:,} connections are open, and limits.connections is "
                f"{self._most:,}: come back later, or use fewer."
            )
        await self._app(scope, receive, send)
