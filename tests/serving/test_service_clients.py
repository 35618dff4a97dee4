"""Clients that retry, hang up or flood."""

import asyncio
import json
import socket
import statistics
import threading
import time

import httpx
from queries_to_send import SEARCH, TENANTS, first_ids, query, search

JSON = {"Content-Type": "application/json"}
COUNTED = "queryshift_hangups_total "


def counted(client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_a_request_that_is_sent_again_is_answered_alike_and_teaches_once(server):
    body = {"tenant": "again", "queries": [query(number, 60) for number in range(5)]}
    with server.client() as client:
        headers = {"Idempotency-Key": "first"}
        answers = [client.post(SEARCH, json=body, headers=headers).json() for _ in range(3)]
        other = client.post(SEARCH, json=body | {"k": 1}, headers=headers)
        report = client.get(f"{TENANTS}/again").json()
    assert answers[0] == answers[1] == answers[2]
    assert report["queries"] == 5 and report["pending"] == 5
    assert other.status_code == 409 and "another body" in other.json()["detail"]


def test_the_same_key_sent_twice_at_once_teaches_once(server):
    async def twice() -> list[dict]:
        body = {"tenant": "twice", "queries": [query(number) for number in range(4)]}
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            sent = (client.post(SEARCH, json=body, headers={"Idempotency-Key": "k"}) for _ in "ab")
            return [answer.json() for answer in await asyncio.gather(*sent)]

    first, second = asyncio.run(twice())
    with server.client() as client:
        assert first == second and client.get(f"{TENANTS}/twice").json()["queries"] == 4


def test_a_retry_is_answered_although_the_first_sender_has_hung_up(server):
    content = json.dumps(
        {"tenant": "retrier", "queries": [query(number) for number in range(32)]}
    ).encode()
    headers = {"Idempotency-Key": "retried", "Content-Type": "application/json"}
    with socket.create_connection(("127.0.0.1", server.port)) as wire, server.client() as client:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = [f"POST {SEARCH} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
        wire.sendall("\r\n".join([*head, *lines, "", ""]).encode() + content)
        time.sleep(0.05)
        sent = threading.Thread(target=lambda: (time.sleep(0.05), wire.close()))
        sent.start()
        answer = client.post(SEARCH, content=content, headers=headers)
        sent.join()
        report = client.get(f"{TENANTS}/retrier").json()
    assert answer.status_code == 200 and len(answer.json()["answers"]) == 32
    assert report["queries"] == 32


def test_undo_sent_again_under_its_key_undoes_once(server):
    with server.client() as client:
        for start in (0, 8):
            search(client, range(start, start + 8), noise=60, tenant="careful")
            deadline = time.monotonic() + 30
            while client.get(f"{TENANTS}/careful").json()["pending"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        path, headers = f"{TENANTS}/careful/undo", {"Idempotency-Key": "undo-1"}
        answers = [client.post(path, json={}, headers=headers) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


def test_clients_that_hung_up_are_neither_answered_nor_learnt_from(server):
    asked = [query(number) for number in range(64)] * 2  # long enough to hang up in time
    content = json.dumps({"tenant": "gone", "queries": asked}).encode()
    head = (
        f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    ).encode()
    with server.client() as client:
        search(client, [1], tenant="gone", adapt=False)
        before = counted(client, COUNTED)
        for number in range(1, 7):
            with socket.create_connection(("127.0.0.1", server.port)) as wire:
                wire.sendall(head + content)
            deadline = time.monotonic() + 60
            while counted(client, COUNTED) < before + number:
                assert time.monotonic() < deadline, counted(client, COUNTED)
                time.sleep(0.02)
        report = client.get(f"{TENANTS}/gone").json()
    assert report["queries"] == 1 and report["pending"] == 0 and report["batches"] == 0


def test_a_quiet_tenant_is_answered_before_those_who_came_first_of_a_flooding_one(server):
    def body(tenant: str, queries: int) -> dict:
        return {"tenant": tenant, "adapt": False, "queries": [query(2)] * queries}

    loud = json.dumps(body("loud", 4))  # once: the server must be slower than who asks

    async def flood(ended: threading.Event) -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

            async def ask() -> None:
                while not ended.is_set():
                    await client.post(SEARCH, content=loud, headers=JSON)

            await asyncio.gather(*(ask() for _ in range(24)))

    ended = threading.Event()
    flooding = threading.Thread(target=lambda: asyncio.run(flood(ended)))
    with server.client() as client:
        flooding.start()
        try:
            deadline = time.monotonic() + 60
            while len(logged(server, "loud")) < 48:  # each of the 24 has waited for the others
                assert time.monotonic() < deadline
                time.sleep(0.02)
            for _ in range(12):
                assert first_ids(client.post(SEARCH, json=body("quiet", 1)).json()) == [2]
        finally:
            ended.set()
            flooding.join()
    assert statistics.median(logged(server, "quiet")) < 0.6 * statistics.median(
        logged(server, "loud")
    )


def logged(server, tenant: str) -> list[float]:
    """Milliseconds of a tenant's requests, as the server measured them."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line[0] == "{"]
    return [line["ms"] for line in lines if line.get("tenant") == tenant]
