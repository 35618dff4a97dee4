"""What a request may take: connections, bytes and lines of headers, bytes of bodies, seconds.

uvicorn limits no headers with httptools, whose parser keeps a line until it ends; with h11 it
limits bytes, to 64 KiB.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .. import errors
from ..settings import LimitSettings

PIPELINED = 16  # requests of a connection that wait for the answer to another
SENTENCE = "this is no HTTP request: send one as RFC 9112 has it."
ALWAYS = "/healthz"  # a process is not ended because many ask
SMALL = 2**20  # bytes of what is asked about tenants, which is no query
# how often a body may have what JSON is made of: a small value takes 100 times its bytes
MARKS = {b":": 2**17, b"{": 2**17, b"[": 2**17, b",": 2**20}

SLOWEST = 10_000  # bytes a second that buy a body more time


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
        count, most = len(self._connections), self._connections.most
        if scope["type"] == "http" and count > most and scope["path"] != ALWAYS:
            told = f"{count:,} connections are open, and limits.connections is {most:,}"
            raise errors.TooManyConnections(f"{told}: come back later, or use fewer.")
        await self._app(scope, receive, send)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol; closes connections that send too much, or too slowly.

    Attributes:
        limits: bytes and lines of headers, and the seconds in which they must come.
        open_connections: those of the server.
    """

    limits: LimitSettings
    open_connections: Connections

    _clock: asyncio.TimerHandle | None = None
    _unsent: asyncio.TimerHandle | None = None  # while an answer waits to be taken
    _lines = _counted = 0  # header and trailer lines of the request, and their bytes
    _unread = 0  # bytes that came since the parser last made something of them
    _in_body: bool  # since the headers of the request ended

    def connection_made(self, transport: Any) -> None:
        """The clock begins with the connection."""
        super().connection_made(transport)
        self.open_connections.add(self)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Count what the parser keeps to itself: a line that does not end."""
        self._unread += len(data)
        super().data_received(data)
        if self._too_much and not self.transport.is_closing():
            self.send_400_response(SENTENCE)

    def on_message_begin(self) -> None:
        """Clock and counts begin again with each further request."""
        super().on_message_begin()
        self._lines = self._counted = self._unread = 0
        self._in_body = False
        self._begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a line; trailers are counted too, and nobody reads them."""
        self._unread = 0
        self._counted += len(name) + len(value) + len(b": \r\n")
        self._lines += 1
        if self._too_much:
            raise errors.HeadersTooLarge("too much")  # the parser ends; see send_400_response
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are there: the body has limits of its own."""
        self._in_body, self._unread = True, 0
        self._end()
        if len(self.pipeline) >= PIPELINED:
            self.transport.close()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body, which is counted elsewhere."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole: from now on it waits for us."""
        self._unread = 0
        self._end()
        self.open_connections.begin_request(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It waits for the client again; what is left of an unread body has its time."""
        super().on_response_complete()
        if self.cycle.response_complete:  # else uvicorn has begun the next one of a pipeline
            self.open_connections.end_request(self)
        if self.cycle.more_body:
            self._begin()

    def pause_writing(self) -> None:
        """An answer that is not taken has as long as a body of its size."""
        super().pause_writing()
        seconds = self.limits.body_seconds + self.transport.get_write_buffer_size() / SLOWEST
        self._unsent = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The answer was taken."""
        super().resume_writing()
        if self._unsent is not None:
            self._unsent.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to wait for."""
        self._end()
        self.resume_writing()
        self.open_connections.discard(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request in a sentence; one that is under way gets no second."""
        if self.cycle is None or self.cycle.response_complete:
            most = f"{self.limits.header_bytes:,} bytes or {self.limits.header_lines} lines"
            too_large = errors.HeadersTooLarge(f"the headers have more than {most}: send less.")
            refused = too_large if self._too_much else errors.Refused(SENTENCE)
            self.transport.write(_refusal(refused))
        self.transport.close()

    @property
    def _too_much(self) -> bool:
        size = self._counted + self._unread
        return size > self.limits.header_bytes or self._lines > self.limits.header_lines

    def _begin(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.limits.body_seconds, self.transport.close)

    def _end(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def protocol_of(limits: LimitSettings, connections: Connections) -> type[HttpToolsProtocol]:
    """The protocol of a server with these limits, whose connections are counted."""
    return type("Limited", (LimitedProtocol,), {"limits": limits, "open_connections": connections})


def _refusal(refused: errors.Refused) -> bytes:
    """A whole response, for a connection that has no request."""
    content = json.dumps(errors.problem(refused)).encode()
    status = refused.status
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: {errors.MEDIA_TYPE}\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content


class BodyLimit:
    """Counts the bytes of a request's body, whatever its headers say, and the time it takes.

    Args:
        app: the application behind it.
        limits: bytes of a body, and the seconds that it may take to come; a large one has a second
            more for each 10,000 bytes.
    """

    def __init__(self, app: Any, limits: LimitSettings) -> None:
        self._app, self._most, self._seconds = app, limits.body_bytes, limits.body_seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, counting what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = min(self._most, SMALL) if "/tenants/" in scope["path"] else self._most
        too_large = errors.TooLarge(f"the body has more than {most:,} bytes: send less at once.")
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > most:
            raise too_large
        read, whole, end = 0, False, asyncio.get_running_loop().time() + self._seconds
        marks = dict.fromkeys(MARKS, 0)

        async def counted() -> Any:
            nonlocal read, whole
            message = await (receive() if whole else self._by(end + read / SLOWEST, receive))
            whole = not message.get("more_body", False)
            if message["type"] == "http.request":
                part = message.get("body", b"")
                read += len(part)
                if read > most:
                    raise too_large
                for mark, times in MARKS.items():
                    marks[mark] += part.count(mark)
                    if marks[mark] > times:
                        raise errors.TooLarge("the body has too many values: send less at once.")
            return message

        await self._app(scope, counted, send)

    async def _by(self, end: float, receive: Any) -> Any:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            told = f"the body did not come within {self._seconds:g} s: try again."
            raise errors.TooSlow(told) from None
