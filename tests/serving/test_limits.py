"""One connection's bytes, to the edge of its limits: headers, trailers, pipelines, its clock."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from queryshift.serving.http.limits import Connections, protocol_of
from queryshift.serving.settings import LimitSettings

GET = b"GET /v1/collections HTTP/1.1\r\n"
POST = b"POST /search HTTP/1.1\r\nContent-Length: 4\r\n\r\n"
CHUNKED = b"POST /search HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
NOTED = 28  # bytes of that header: its name, its value, a colon, a space, the end of the line
SECONDS = 29.0


class Wire(asyncio.Transport):
    """The server's end of a connection, which keeps what is sent, and its timers."""

    def __init__(self, open_connections: Connections | None = None, **limits) -> None:
        super().__init__()
        self.sent, self.closed, self.timers = b"", False, list[Callable]()
        self.asked, self.answers = list[dict](), asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        given = LimitSettings(body_seconds=SECONDS, **limits)
        known = Connections(8) if open_connections is None else open_connections
        kind = protocol_of(given, known)
        config = uvicorn.Config(self.app, log_config=None, ws="none", interface="asgi3")
        self.protocol = kind(config, ServerState(), {}, self)
        self.protocol.connection_made(self)

    async def app(self, scope, receive, send):
        """Answers when it may, without a look at the body."""
        self.asked.append(scope)
        await self.answers.acquire()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def create_task(self, work, **more):
        return self._loop.create_task(work, **more)

    def call_later(self, seconds, call):
        """Only the clock of a request is kept: how long a connection may idle is uvicorn's."""
        if seconds == SECONDS:
            self.timers.append(call)
        return SimpleNamespace(cancel=lambda: seconds == SECONDS and self.timers.remove(call))

    async def take(self, *parts: bytes) -> None:
        """Receive bytes, as far as the connection is open."""
        for part in parts:
            if not self.closed:
                self.protocol.data_received(part)
        for _ in range(5):  # turns of the loop, for the application
            await asyncio.sleep(0)

    def write(self, data):
        self.sent += bytes(data)

    def close(self):
        self.closed = True

    abort = close

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def headers(size: int, lines: int = 2) -> bytes:
    """So many lines of headers that count for so many bytes; no end."""
    each = [size // lines] * (lines - 1)
    each.append(size - sum(each))
    return b"".join(b"X-%03d: %s\r\n" % (n, b"a" * (one - 9)) for n, one in enumerate(each))


def told(wire: Wire) -> dict:
    """What the only response on a closed wire says of why."""
    head, _, content = wire.sent.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(content) in head and b"connection: close" in head
    problem = json.loads(content)
    assert head.startswith(b"HTTP/1.1 %d " % problem["status"]) and wire.closed
    return problem


LIMITS = {"header_bytes": 1024, "header_lines": 10}


@pytest.mark.parametrize(
    ("sent", "passes"),
    [
        ([GET + headers(1024) + b"\r\n"], True),
        ([GET + headers(1025) + b"\r\n"], False),
        ([GET, headers(1000), b"X-A: 0123456789" + b"0123456789", b"\r\n\r\n"], False),
        ([GET + headers(500, 10) + b"\r\n"], True),
        ([GET + headers(500, 11) + b"\r\n"], False),
        ([GET, b"X-Long: " + b"a" * 1016], None),  # whose line goes on
        ([GET, b"X-Long: " + b"a" * 1017], False),
        ([GET + headers(500), b"X", b"-Long: " + b"a" * 517], None),
        ([GET + headers(500), b"X", b"-Long: " + b"a" * 518], False),
        ([b"\r\n" * 512], None),
        ([b"\r\n" * 512, b"\r"], False),
        ([POST[:-2] + headers(1024 - 19) + b"\r\n", b"12", b"34"], True),
    ],
)
def test_headers_have_so_many_bytes_and_lines_at_most(sent, passes):
    async def scenario():
        wire = Wire(**LIMITS)
        await wire.take(*sent)
        assert len(wire.asked) == (passes is True)
        if passes is False:
            assert told(wire)["status"] == 431
            assert "more than 1,024 bytes or 10 lines" in told(wire)["detail"]
        else:
            assert not wire.closed and not wire.sent

    asyncio.run(scenario())


def test_each_request_of_a_connection_has_the_whole_limit():
    async def scenario():
        wire = Wire(**LIMITS)
        for number in range(1, 4):
            wire.answers.release()
            await wire.take(GET + headers(1024, 10) + b"\r\n")
            assert len(wire.asked) == number and not wire.closed
        wire.sent = b""
        await wire.take(GET + headers(1025) + b"\r\n")
        assert told(wire)["status"] == 431 and len(wire.asked) == 3

    asyncio.run(scenario())


def test_what_is_no_request_is_told_so():
    async def scenario():
        wire = Wire()
        await wire.take(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert told(wire)["status"] == 400 and "no HTTP request" in told(wire)["detail"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("size", "passes"), [(1024 - NOTED, True), (1025 - NOTED, False)])
def test_trailers_are_counted_with_the_headers_and_do_not_become_any(size, passes):
    async def scenario():
        wire = Wire(**LIMITS)
        await wire.take(CHUNKED + headers(size) + b"\r\n")
        assert [name for name, _ in wire.asked[0]["headers"]] == [b"transfer-encoding"]
        assert wire.closed is not passes and not wire.sent  # no second answer to it

    asyncio.run(scenario())


def test_sixteen_requests_of_a_connection_wait_for_another_and_no_more():
    async def scenario():
        wire = Wire()
        await wire.take(*[GET + b"\r\n"] * 17)
        assert not wire.closed
        await wire.take(GET + b"\r\n")
        assert wire.closed

    asyncio.run(scenario())


def test_a_request_has_its_time_from_the_connection_on_and_its_body_another():
    async def scenario():
        wire = Wire()
        (opened,) = wire.timers
        await wire.take(POST[:30])
        assert wire.timers == [opened]
        await wire.take(POST[30:] + b"12")
        assert wire.timers == []  # the body is timed by who reads it
        await wire.take(b"34")
        assert wire.timers == []
        wire.answers.release()
        await wire.take()
        assert b" 204 " in wire.sent and wire.timers == []
        await wire.take(GET)
        (again,) = wire.timers
        again()
        assert wire.closed
        wire.protocol.connection_lost(None)
        assert wire.timers == []

    asyncio.run(scenario())


def test_a_body_that_is_left_unread_has_its_time_too():
    async def scenario():
        wire = Wire()
        wire.answers.release()
        await wire.take(POST + b"12")
        assert b" 204 " in wire.sent and len(wire.timers) == 1
        await wire.take(b"34")
        assert wire.timers == [] and not wire.closed

    asyncio.run(scenario())


def test_a_connection_gives_way_to_another_when_it_has_its_answers_and_not_before():
    async def scenario():
        known = Connections(1)
        wire = Wire(known)
        await wire.take(*[GET + b"\r\n"] * 3)
        for _ in range(2):
            wire.answers.release()
            await wire.take()
        assert wire.sent.count(b" 204 ") == 2  # the last request is under way
        Wire(known)
        assert not wire.closed and len(known) == 2
        wire.answers.release()
        await wire.take()
        assert wire.sent.count(b" 204 ") == 3 and not wire.closed
        Wire(known)
        assert not wire.closed and len(known) == 2  # who was silent for longer made room
        Wire(known)
        assert wire.closed

    asyncio.run(scenario())
