"""Bombs, large bodies, full queues, memory and disks: the server answers on."""

import asyncio
import re
import resource
import socket
import time
import zlib
from base64 import b64encode
from struct import pack

import httpx
import pytest
from queries_to_send import SEARCH, TENANTS, first_ids, learnt, query, search

from queryshift.serving.errors import TooManyConnections
from queryshift.serving.http.limits import ConnectionLimit, Connections
from running_server import SMALL, Server

TIGHT = """
[limits]
body_bytes = 300000
pixels = 1000000
queries = 16
body_seconds = 1.5

[queues]
waiting_of_tenant = 16
waiting = 24
batch = 4

[tenants]
loaded = 2
save_batches = 1
save_seconds = 0.2
"""


@pytest.fixture(scope="module")
def tight(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("tight"), TIGHT + SMALL) as running:
        yield running


def bomb(side: int) -> bytes:
    """A PNG of `side` x `side` black pixels, a thousand times smaller than its image."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress(bytes((side * 3 + 1) * side), 9)
    head = pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_an_image_bomb_is_refused_before_it_is_decoded(tight):
    small = bomb(4000)
    assert len(small) < 100_000
    with tight.client() as client:
        answer = client.post(SEARCH, json={"query": {"image": b64encode(small).decode()}})
        after = search(client, [3])
    assert answer.status_code == 422
    assert "4000 x 4000 pixels" in answer.json()["detail"]
    assert first_ids(after) == [3]


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(tight):
    large = b"{" + b" " * 400_000 + b"}"
    headers = {"Content-Type": "application/json"}
    with tight.client() as client:
        honest = client.post(SEARCH, content=large, headers=headers)
        parts = (large[start : start + 10_000] for start in range(0, len(large), 10_000))
        chunked = client.post(SEARCH, content=parts, headers=headers)
    assert honest.status_code == chunked.status_code == 413
    assert "300,000 bytes" in chunked.json()["detail"]


def test_deeply_nested_json_is_refused(tight):
    with tight.client() as client:
        answer = client.post(
            SEARCH,
            content=b'{"query":' + b"[" * 100_000,
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 422


def test_a_body_that_does_not_come_is_given_up(tight):
    with socket.create_connection(("127.0.0.1", tight.port)) as wire:
        wire.sendall(
            f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        wire.settimeout(10)
        assert b" 408 " in wire.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT"])
def test_a_request_that_does_not_begin_is_given_up(tight, sent):
    with socket.create_connection(("127.0.0.1", tight.port)) as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" if sent else b"")
        wire.settimeout(10)
        if sent:
            assert b" 200 " in wire.recv(4096)  # the second request of a connection, too
        wire.sendall(sent)
        while wire.recv(4096):
            pass  # until it is closed


def test_connections_over_the_limit_are_refused_in_a_sentence_and_health_is_not():
    async def app(scope, receive, send):
        return "answered"

    async def asked(path):
        scope = {"type": "http", "path": path}
        return await ConnectionLimit(app, connections)(scope, None, None)

    connections = Connections(1)
    for one in (object(), object()):
        connections.add(one)
        connections.begin_request(one)
    with pytest.raises(TooManyConnections, match="2 connections are open") as refused:
        asyncio.run(asked("/readyz"))
    assert refused.value.status == 503 and refused.value.headers["Connection"] == "close"
    asyncio.run(asked("/healthz"))


def test_too_many_queries_at_once_are_refused(tight):
    with tight.client() as client:
        answer = client.post(SEARCH, json={"queries": [query(1)] * 17})
    assert answer.status_code == 422 and "at most 16" in answer.json()["detail"]


def test_a_full_queue_is_429_with_when_to_come_back(tight):
    async def flood() -> list[httpx.Response]:
        body = {"queries": [query(number) for number in range(8)], "tenant": "flood"}
        async with httpx.AsyncClient(base_url=tight.url, timeout=60) as client:
            return await asyncio.gather(*(client.post(SEARCH, json=body) for _ in range(16)))

    answers, deadline = asyncio.run(flood()), time.monotonic() + 60
    while 429 not in [answer.status_code for answer in answers]:  # they came too slowly to wait
        assert time.monotonic() < deadline
        answers += asyncio.run(flood())
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429} and statuses.count(200) >= 2
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1 and "waiting" in refused.json()["detail"]
    with tight.client() as client:
        assert 'queryshift_refused_total{reason="queue"}' in client.get("/metrics").text
        assert first_ids(search(client, [5], tenant="calm")) == [5]


def test_tenants_beyond_those_in_memory_come_back_as_they_were(tight):
    with tight.client() as client:
        search(client, range(8), noise=90, tenant="first")
        before = learnt(client, "first", 1)
        for name in ("second", "third", "fourth", "fifth"):
            search(client, [1], tenant=name)
        deadline = time.monotonic() + 30
        while 'tenants_loaded{collection="tangram"} 2.0' not in client.get("/metrics").text:
            assert time.monotonic() < deadline, client.get("/metrics").text
            time.sleep(0.05)
        after = client.get(f"{TENANTS}/first").json()
        rows = client.get(f"{TENANTS}/first/history").json()["rows"]
        assert first_ids(search(client, [3], tenant="first", adapt=False)) == [3]
        metrics = client.get("/metrics").text
    assert re.search(r'tenant_loads_total{collection="tangram"} [1-9]', metrics)
    for name in ("updates_in_force", "lr"):
        assert after["report"][name] == before["report"][name]
    assert after["queries"] == 8 and [row["batch"] for row in rows] == [1]


def test_a_full_disk_degrades_to_answering_and_says_so(tight):
    with tight.client() as client:
        before = search(client, range(8), noise=90, tenant="full")
        learnt(client, "full", 1)
        tight.limit_files(0)  # a record that fits would be written: all is well again
        path, ready = f"{TENANTS}/full/snapshots", tight.url + "/readyz"
        refused = client.post(path, json={"name": "lost"})
        mode = client.post(f"{TENANTS}/full/mode", json={"mode": "frozen"})
        told = search(client, [3], tenant="full", adapt=False)
        state, metrics = client.get(ready), client.get("/metrics").text
        listed = client.get(path).json()["snapshots"]
        tight.limit_files(resource.RLIM_INFINITY)
        kept = client.post(path, json={"name": "kept"})
        again = client.get(ready)
    assert refused.status_code == 507 and "nothing was changed" in refused.json()["detail"]
    assert mode.status_code == 507 and "nothing was changed" in mode.json()["detail"]
    assert told["mode"] == before["mode"] != "frozen"
    assert first_ids(told) == [3] and listed == []
    assert state.status_code == 200 and "cannot be written" in state.json()["disk"]
    assert "queryshift_disk_trouble 1.0" in metrics
    assert kept.status_code == 200 and again.json()["disk"] == "ok"
