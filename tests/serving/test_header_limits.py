"""Bytes on a wire that are no request yet: headers, trailers, slow bodies, silent connections."""

import asyncio
import os
import socket
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Thread

import pytest
from queries_to_send import SEARCH, first_ids, search
from uvicorn.protocols.http.flow_control import FlowControl

from queryshift.serving.http.limits import Connections, protocol_of
from queryshift.serving.settings import LimitSettings
from running_server import SMALL, Server

LIMITS = "[limits]\nbody_seconds = 2\nconnections = 40\n"
BEGIN = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("limited"), LIMITS + SMALL) as running:
        yield running


def memory(server: Server) -> int:
    """Bytes that the process holds."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def flood(server: Server, begin: bytes, line, seconds: float = 20) -> int:
    """Send lines until the connection is closed: the bytes that were taken."""
    sent, end = 0, time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", server.port)) as wire:
        wire.settimeout(5)
        wire.sendall(begin)
        with suppress(OSError):  # closed
            for number in count():
                part = b"".join(line(1000 * number + one) for one in range(1000))
                wire.sendall(part)
                sent += len(part)
                assert time.monotonic() < end, f"{sent:,} bytes were taken"
    return sent


@pytest.mark.parametrize("begin", [BEGIN, CHUNKED], ids=["headers", "trailers"])
@pytest.mark.parametrize(
    "line",
    [lambda number: b"X-%07d: a\r\n" % number, lambda number: b"a" * 100],
    ids=["lines", "one line"],
)
def test_headers_without_end_are_refused_and_take_no_memory(limited, begin, line):
    before = memory(limited)
    sent = flood(limited, begin, line)
    assert sent < 20e6 and memory(limited) - before < 50e6
    with limited.client() as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [b"X-One: 1\r\n" * 200, b"X-Long: " + b"a" * 40_000 + b"\r\n"],
    ids=["lines", "bytes"],
)
def test_too_large_headers_are_431_in_a_sentence(limited, headers):
    with socket.create_connection(("127.0.0.1", limited.port)) as wire:
        wire.settimeout(5)
        wire.sendall(BEGIN + headers + b"\r\n")
        told = wire.recv(4096)
    assert told.startswith(b"HTTP/1.1 431 ") and b"application/problem+json" in told
    assert b"more than 32,768 bytes or 100 lines" in told


def test_what_is_no_request_is_400_in_a_sentence(limited):
    with socket.create_connection(("127.0.0.1", limited.port)) as wire:
        wire.settimeout(5)
        wire.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        told = wire.recv(4096)
    assert told.startswith(b"HTTP/1.1 400 ") and b"no HTTP request" in told


def test_trailers_do_not_become_headers(limited):
    sent = POST.replace(b"POST " + SEARCH.encode(), b"GET /healthz") + (
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Request-Id: late\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", limited.port)) as wire:
        wire.settimeout(5)
        wire.sendall(sent)
        told = wire.recv(4096)
    assert b" 200 " in told and b"late" not in told


@pytest.mark.parametrize(
    "content",
    [
        b'{"queries":[' + b",".join([b"{}"] * 5_000_000) + b"]}",
        b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}",
        b'{"queries":' + b"[" * 5_000_000,
    ],
    ids=["values", "names", "nested"],
)
@pytest.mark.parametrize("path", [SEARCH, SEARCH.replace("search", "corrupt")])
def test_small_values_without_number_hold_nobody_up(limited, path, content):
    before, slowest, answers = memory(limited), 0.0, []
    headers = {"Content-Type": "application/json"}

    def send():
        with limited.client() as client:
            answers.append(client.post(path, content=content, headers=headers))

    sending = Thread(target=send)
    sending.start()
    with limited.client() as client:
        while sending.is_alive():
            begun = time.perf_counter()
            assert client.get("/healthz").status_code == 200
            slowest = max(slowest, time.perf_counter() - begun)
    assert answers[0].status_code == 413 and "too many values" in answers[0].json()["detail"]
    assert slowest < 1 and memory(limited) - before < 50e6


def test_deep_values_are_refused(limited):
    content = b'{"query":' + b"[" * 100_000
    with limited.client() as client:
        for path in (SEARCH, SEARCH.replace("search", "corrupt")):
            answer = client.post(
                path, content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("path", [SEARCH, "/healthz"])
def test_a_body_that_drips_is_closed_in_time(limited, path):
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", limited.port)) as wire:
        wire.settimeout(0.25)
        wire.sendall(POST.replace(SEARCH.encode(), path.encode()) + b"Content-Length: 999\r\n\r\n")
        while time.monotonic() - begun < 15:
            try:
                wire.sendall(b"a")
                if wire.recv(4096) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("sent", [b"", BEGIN, POST + b"Content-Length: 9\r\n\r\n"])
def test_silent_connections_keep_nobody_out(limited, sent):
    wires = [socket.create_connection(("127.0.0.1", limited.port)) for _ in range(60)]
    try:
        for wire in wires:
            wire.sendall(sent)
        with limited.client() as client:
            assert client.get("/readyz").status_code == 200
            assert first_ids(search(client, [3])) == [3]
    finally:
        for wire in wires:
            wire.close()


class Silent:
    """A connection that is told to end."""

    def __init__(self):
        self.transport, self.ended = self, False

    def abort(self):
        self.ended = True


def test_a_connection_with_a_request_under_way_is_not_closed_for_another():
    connections, (asking, silent, third, fourth) = Connections(2), [Silent() for _ in range(4)]
    connections.add(asking)
    connections.begin_request(asking)
    connections.add(silent)
    connections.add(third)
    assert silent.ended and not asking.ended and len(connections) == 2
    connections.begin_request(third)
    connections.add(fourth)
    assert not asking.ended and not third.ended and len(connections) == 3  # and it is refused
    connections.end_request(asking)
    connections.add(Silent())
    assert fourth.ended and not asking.ended  # it has been silent for less long


def test_who_leaves_in_the_middle_of_a_body_is_no_failure_of_ours(limited):
    with socket.create_connection(("127.0.0.1", limited.port)) as wire:
        wire.sendall(POST + b'Content-Length: 999\r\n\r\n{"query"')
        time.sleep(0.2)
    end = time.monotonic() + 5
    with limited.client() as client:
        while "hangups_total 0.0" in (told := client.get("/metrics").text):
            assert time.monotonic() < end
    assert "5xx" not in told


class Unread:
    """A connection whose other side reads nothing."""

    ended = False

    def get_write_buffer_size(self):
        return 1000

    def abort(self):
        self.ended = True


@pytest.mark.parametrize("taken", [False, True])
def test_who_does_not_take_an_answer_is_cut_off_in_time(taken):
    async def check():
        kind = protocol_of(LimitSettings(body_seconds=0.1), Connections(2))
        protocol = kind.__new__(kind)
        protocol.loop, protocol.transport = asyncio.get_running_loop(), Unread()
        protocol.flow = FlowControl(protocol.transport)
        protocol.pause_writing()
        await asyncio.sleep(0.1)
        assert not protocol.transport.ended  # a larger answer has more time
        if taken:
            protocol.resume_writing()
        await asyncio.sleep(0.4)
        assert protocol.transport.ended is not taken

    asyncio.run(check())
