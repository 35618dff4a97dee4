"""What is left after restarts and kills."""

import sqlite3
import threading
import time
from contextlib import closing

import httpx
import pytest
from queries_to_send import SEARCH, TENANTS, first_ids, learnt, query, search

from running_server import SMALL, Server

UNGUARDED = SMALL.replace("guard = { collapse = 0.9 }", "guard = false")  # all is learnt
EVERY_BATCH = SMALL + "[tenants]\nsave_batches = 1\nsave_seconds = 0.2\n"


def stored(folder, statement: str):
    """What a statement gives in the store of a server."""
    with closing(sqlite3.connect(folder / "data" / "queryshift.db")) as connection, connection:
        return (connection.execute(statement).fetchone() or [None])[0]


class Load:
    """Searches of one tenant in threads until ended; counts those that were answered."""

    def __init__(self, server: Server, tenant: str, threads: int = 4) -> None:
        self.answered, self.ended, self._lock = 0, threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(server, tenant, 16 * one))  # no repeats
            for one in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, server: Server, tenant: str, number: int) -> None:
        with server.client() as client:
            while not self.ended.is_set():
                number += 1
                body = {"tenant": tenant, "query": query(number % 64, 60)}
                try:
                    answer = client.post(SEARCH, json=body)
                except httpx.TransportError:
                    time.sleep(0.1)
                    continue
                with self._lock:
                    self.answered += answer.status_code == 200

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()


def test_a_restart_loses_no_answered_request_and_nothing_learnt(tmp_path):
    with Server(tmp_path, UNGUARDED) as server:
        with server.client() as client:
            client.post(f"{TENANTS}/steady/mode", json={"mode": "shadow"})
            with Load(server, "steady") as load:
                deadline = time.monotonic() + 60
                while client.get(f"{TENANTS}/steady").json()["batches"] < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                server.stop()
                load.ended.set()
        server.start()
        with server.client() as client:
            told = client.get(f"{TENANTS}/steady").json()
            rows = client.get(f"{TENANTS}/steady/history").json()["rows"]
        assert load.answered > 0 and told["queries"] == load.answered
        assert told["mode"] == "shadow" and told["batches"] == len(rows) >= 2
        assert told["report"]["updates_in_force"] == 3 * told["updates"] == 3 * len(rows)


def test_after_kill_9_an_acknowledged_snapshot_is_there_and_the_tenant_whole(tmp_path):
    with Server(tmp_path, EVERY_BATCH) as server:
        with server.client() as client:
            search(client, range(8), noise=90, tenant="killed")
            before = learnt(client, "killed", 1)
            made = client.post(f"{TENANTS}/killed/snapshots", json={"name": "kept"})
            assert made.status_code == 200
            deadline = time.monotonic() + 30
            while stored(tmp_path, "SELECT count(*) FROM states") == 0:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            new = client.post(f"{TENANTS}/new/snapshots", json={"name": "first"})
        server.kill()
        server.start()
        with server.client() as client:
            after = client.get(f"{TENANTS}/killed").json()
            back = client.post(f"{TENANTS}/killed/rollback", json={"name": "kept"})
            first = client.post(f"{TENANTS}/new/rollback", json={"name": "first"})
        assert new.status_code == first.status_code == 200
        assert after["snapshots"] == [made.json()] and back.status_code == 200
        in_force = before["report"]["updates_in_force"]
        assert after["report"]["updates_in_force"] == in_force > 0
        assert back.json()["report"]["updates_in_force"] == in_force


@pytest.mark.service
def test_a_damaged_state_starts_anew_and_the_rest_of_the_tenants_goes_on(tmp_path):
    with Server(tmp_path, EVERY_BATCH) as server:
        with server.client() as client:
            search(client, range(8), noise=90, tenant="hurt")
            learnt(client, "hurt", 1)
        server.stop()
        stored(tmp_path, "UPDATE states SET content = substr(content, 1, length(content) - 100)")
        server.start()
        with server.client() as client:
            told = client.get(f"{TENANTS}/hurt").json()
            assert first_ids(search(client, [3], tenant="hurt")) == [3]
    assert told["queries"] == 8 and told["report"]["updates_in_force"] == 0
    assert "kept_aside" in [event["event"] for event in told["guard"]["events"]]
    assert "starts anew" in server.log.read_text()


@pytest.mark.service
def test_killed_in_a_loop_under_load_no_acknowledged_snapshot_is_lost(tmp_path):
    acknowledged: list[str] = []
    ended = threading.Event()
    with Server(tmp_path, EVERY_BATCH + "snapshots = 1000\n") as server:

        def snap() -> None:
            with server.client() as client:
                while not ended.is_set():
                    name = f"snap-{len(acknowledged)}"
                    try:
                        answer = client.post(f"{TENANTS}/looped/snapshots", json={"name": name})
                    except httpx.TransportError:
                        time.sleep(0.1)
                        continue
                    if answer.status_code == 200:
                        acknowledged.append(name)

        snapping = threading.Thread(target=snap)
        with Load(server, "looped", threads=3) as load:
            snapping.start()
            for _ in range(8):
                time.sleep(1.5)
                known = list(acknowledged)
                server.kill()
                server.start()
                with server.client() as client:
                    path = f"{TENANTS}/looped"
                    there = {one["name"] for one in client.get(path).json()["snapshots"]}
                    assert set(known) <= there
                    if known:
                        back = client.post(f"{path}/rollback", json={"name": known[-1]})
                        assert back.status_code == 200, back.text
            ended.set()
            snapping.join()
        assert load.answered > 20 and len(acknowledged) > 8
        assert "starts anew" not in server.log.read_text()
