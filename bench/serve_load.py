"""Clients of a server: prepared requests over open connections, and how long answers take.

They share two cores with the server, so they do next to nothing: bytes are prepared, of answers
only the length is read. A single client is a plain socket; a flood is a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any


@dataclass
class Measured:
    """What became of some requests."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    wall: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.wall

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def request(collection: str, tenant: str, query: dict[str, str], **more: Any) -> bytes:
    """A search as bytes: nothing is left to do while the clock runs."""
    body = {"tenant": tenant, "query": query, "k": 10, **more}
    return post(f"/v1/collections/{collection}/search", body)


def post(path: str, told: Any) -> bytes:
    """A POST of JSON as bytes."""
    body = json.dumps(told).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def plain_get(path: str) -> bytes:
    """A GET as bytes."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


class Wire:
    """One open connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sent: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._ends is None:
            self._ends = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._ends
        writer.write(sent)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split(b" ")[1]), await reader.readexactly(length)

    def close(self) -> None:
        if self._ends is not None:
            self._ends[1].close()


class PlainWire:
    """One open connection of a client that waits for each answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, sent: bytes) -> float:
        """Seconds until the whole answer is there."""
        started = time.perf_counter()
        self._socket.sendall(sent)
        got = self._socket.recv(65536)
        while b"\r\n\r\n" not in got:
            got += self._socket.recv(65536)
        head, _, body = got.partition(b"\r\n\r\n")
        left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(body)
        while left > 0:
            left -= len(self._socket.recv(65536))
        seconds = time.perf_counter() - started
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(got.decode())
        return seconds

    def close(self) -> None:
        self._socket.close()


def alone(port: int, requests: Sequence[bytes], seconds: float) -> Measured:
    """One client that sends its requests in turn."""
    wire, found, end = PlainWire(port), Measured(wall=seconds), time.perf_counter() + seconds
    while time.perf_counter() < end:
        found.seconds.append(wire.ask(requests[len(found.seconds) % len(requests)]))
    wire.close()
    return found


@contextmanager
def flooded(port: int, clients: Sequence[Sequence[bytes]], seconds: float) -> Iterator[None]:
    """A server that clients of another process flood meanwhile."""
    process = get_context("fork").Process(target=_flood, args=(port, clients, seconds))
    process.start()
    try:
        yield
    finally:
        process.join()


def _flood(port: int, clients: Sequence[Sequence[bytes]], seconds: float) -> None:
    asyncio.run(saturated(port, clients, seconds))


async def saturated(port: int, clients: Sequence[Sequence[bytes]], seconds: float) -> Measured:
    """Each client sends its requests in turn, the next when the last is answered."""
    found, end = Measured(), time.perf_counter() + seconds

    async def client(requests: Sequence[bytes]) -> None:
        wire, number = Wire(port), 0
        while (started := time.perf_counter()) < end:
            status, _ = await wire.ask(requests[number % len(requests)])
            number += 1
            if status == 200:
                found.seconds.append(time.perf_counter() - started)
            else:
                found.refused += 1
                await asyncio.sleep(0.05)
        wire.close()

    started = time.perf_counter()
    await asyncio.gather(*map(client, clients))
    found.wall = time.perf_counter() - started
    return found


async def paced(port: int, requests: Sequence[bytes], rate: float) -> tuple[Measured, list[Any]]:
    """Requests at a rate, whether the last is answered or not; their answers in order."""
    found, idle = Measured(), [Wire(port) for _ in range(64)]
    answers: list[Any] = [None] * len(requests)

    async def one(number: int) -> None:
        wire = idle.pop() if idle else Wire(port)
        started = time.perf_counter()
        status, body = await wire.ask(requests[number])
        found.seconds.append(time.perf_counter() - started)
        answers[number] = json.loads(body) if status == 200 else None
        found.refused += status != 200
        idle.append(wire)

    started, tasks = time.perf_counter(), []
    for number in range(len(requests)):
        await asyncio.sleep(max(0, started + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    found.wall = time.perf_counter() - started
    for wire in idle:
        wire.close()
    return found, answers
