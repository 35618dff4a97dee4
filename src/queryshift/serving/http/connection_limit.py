"""How many connections are open; more than there may be are refused in a sentence."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..errors import TooManyConnections

ALWAYS = "/healthz"  # a process is not ended because many ask


class Connections:
    """The open connections; the protocol adds and removes them.

    One too many takes the place of the one that has owed us a request for the longest, if any
    does: connections that say nothing keep nobody out.

    Args:
        most: how many may be open.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[Any] = set()
        self._owing: OrderedDict[Any, None] = OrderedDict()  # a whole request

    def __len__(self) -> int:
        return len(self._open)

    def add(self, protocol: Any) -> None:
        """Count one that has been opened."""
        if len(self._open) >= self.most and self._owing:
            oldest = next(iter(self._owing))
            self.discard(oldest)
            oldest.transport.abort()
        self._open.add(protocol)
        self._owing[protocol] = None

    def begin_request(self, protocol: Any) -> None:
        """Note that its request is whole."""
        self._owing.pop(protocol, None)

    def end_request(self, protocol: Any) -> None:
        """Note that it has its answer, and may ask again."""
        if protocol in self._open:
            self._owing[protocol] = None

    def discard(self, protocol: Any) -> None:
        """Forget one that is closed."""
        self._open.discard(protocol)
        self._owing.pop(protocol, None)


class ConnectionLimit:
    """Refuses requests while too many connections are open, and closes theirs.

    Args:
        app: the application behind it.
        connections: those that are open.
    """

    def __init__(self, app: Any, connections: Connections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if (
            scope["type"] == "http"
            and len(self._connections) > self._connections.most
            and scope["path"] != ALWAYS
        ):
            raise TooManyConnections(
                f"{len(self._connections):,} connections are open, and limits.connections is "
                f"{self._connections.most:,}: come back later, or use fewer."
            )
        await self._app(scope, receive, send)
