"""Connections whose request does not begin in time are closed: uvicorn itself waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .connection_limit import Connections


def protocol_of(seconds: float, connections: Connections) -> type[HttpToolsProtocol]:
    """uvicorn's protocol, for which the headers of a request must come within some seconds.

    Args:
        seconds: that the headers may take.
        connections: counts those that are open.
    """

    class InTime(HttpToolsProtocol):
        """Closes a connection that has not sent its headers."""

        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """The clock begins with the connection."""
            super().connection_made(transport)
            connections.open += 1
            self._begin()

        def on_message_begin(self) -> None:
            """It begins again with each further request."""
            super().on_message_begin()
            self._begin()

        def on_headers_complete(self) -> None:
            """The headers are there: the body has a limit of its own."""
            self._end()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Nothing is left to wait for."""
            self._end()
            connections.open -= 1
            super().connection_lost(exc)

        def _begin(self) -> None:
            if self._limit is None:
                self._limit = self.loop.call_later(seconds, self.transport.close)

        def _end(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

    return InTime
