"""Tenants on two Ray nodes under load: a node is killed, an owner is frozen and wakes up."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from queries_to_send import SEARCH, TENANTS, learnt, png, query, search

from queryshift.serving.calls import SearchCall
from queryshift.serving.ray_ring import Ring
from queryshift.serving.refusals import OwnerLost
from ray_nodes import two_nodes
from running_server import Server

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.service, pytest.mark.filterwarnings("ignore")]

TOML = """
[collections.tangram]
candidates = 64
mode = "live"
gather = 4
guard = false

[tenants]
save_batches = 1
save_seconds = 0.5

[ray]
owners = 4
lease_seconds = 3
call_seconds = 20
"""
NAMES = [f"tenant-{number}" for number in (0, 1, 2, 3, 5, 7)]  # of all four shares
SAVED_S = 2.0  # within which what was learnt is on disk, on a busy machine


@pytest.fixture(scope="module")
def cluster():
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    patch.setenv("OMP_NUM_THREADS", "1")
    cluster = two_nodes()
    yield cluster
    cluster.shutdown()
    patch.undo()


@pytest.fixture(scope="module")
def doors(cluster, tmp_path_factory):
    """Two front doors of the same owners."""
    folder = tmp_path_factory.mktemp("doors")
    options = ("--ray", cluster.address)
    with Server(folder, TOML, options) as first, Server(folder, TOML, options) as second:
        yield first, second


class Load:
    """Searches of all tenants by both doors; notes when each tenant was last answered."""

    def __init__(self, doors) -> None:
        self.answered = {name: [time.monotonic()] for name in NAMES}
        self.statuses: set[int] = set()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(door,)) for door in doors]
        for thread in self._threads:
            thread.start()

    def _run(self, door: Server) -> None:
        number = 0
        with door.client() as client:
            while not self._ended.is_set():
                number += 1
                for name in NAMES:
                    body = {"tenant": name, "queries": [query(number % 64, 60)] * 2}
                    status = client.post(SEARCH, json=body).status_code
                    self.statuses.add(status)
                    if status == 200:
                        self.answered[name].append(time.monotonic())

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def rows_of(folder: Path) -> dict[str, list[dict]]:
    """What each tenant's history has on disk, whoever wrote it."""
    found = {}
    for record in (folder / "data").glob("collections/tangram/tenants/*/tenant.json"):
        history = record.with_name("history.jsonl")
        lines = history.read_text().splitlines() if history.exists() else []
        found[json.loads(record.read_text())["tenant"]] = [json.loads(line) for line in lines]
    return found


def check_rows(rows: dict[str, list[dict]]) -> None:
    """Every row of a history is of one owner at a time: terms only grow, with the batches."""
    for name in NAMES:
        terms = [(row["term"], row["batch"]) for row in rows[name]]
        assert len({row["owner"] for row in rows[name]}) == 1
        assert all(one < two and one[1] < two[1] for one, two in pairwise(terms)), (name, terms)


def share_of(name: str) -> int:
    return Ring(4).owner("tangram", name)


def lease_of(folder: Path, name: str) -> tuple[int, int]:
    """The process that holds a tenant's share, and its term."""
    told = json.loads((folder / "data" / "owners" / f"{share_of(name)}.lease").read_text())
    return int(told["holder"].split()[1]), told["term"]


def freeze(pid: int, lock: Path, with_lock: bool) -> None:
    """Stop a process in a moment in which it has a lock, or has not."""
    deadline = time.monotonic() + 120
    with lock.open() as file:
        while True:
            os.kill(pid, signal.SIGSTOP)
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.0001)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_UN)
                locked = False
            except BlockingIOError:
                locked = True
            if locked is with_lock:
                return
            os.kill(pid, signal.SIGCONT)
            assert time.monotonic() < deadline, "it never has the lock"
            time.sleep(random.uniform(0.0005, 0.003))


def owner_at(pid: int):
    """The actor that runs in a process; those of a dead node may not answer yet."""
    for number in range(4):
        owner = ray.get_actor(f"owner-{number}")
        with suppress(ray.exceptions.RayError):
            if ray.get(owner.status.remote(), timeout=10)["pid"] == pid:
                return owner
    raise AssertionError(f"no owner runs in process {pid}")


def longest_waits(load: Load) -> dict[str, float]:
    return {name: max(b - a for a, b in pairwise(load.answered[name])) for name in NAMES}


def batches(door: Server) -> dict[str, int]:
    with door.client() as client:
        told = {name: client.get(f"{TENANTS}/{name}") for name in NAMES}
    return {name: one.json()["batches"] for name, one in told.items() if one.status_code == 200}


def test_both_doors_lead_to_the_same_tenant_and_a_retry_teaches_once(doors):
    first, second = doors
    headers = {"Idempotency-Key": "moved"}
    body = {"tenant": "one", "queries": [query(number, 60) for number in range(4)]}
    with first.client() as here, second.client() as there:
        sent = [client.post(SEARCH, json=body, headers=headers) for client in (here, there)]
        answers = [one.json() for one in sent]
        told = learnt(there, "one", 1)
        listed = [client.get(TENANTS).json()["tenants"] for client in (here, there)]
    assert answers[0]["request_id"] == answers[1]["request_id"]
    assert told["queries"] == 4 and told["batches"] == 1
    assert listed[0] == listed[1] and "one" in {row["tenant"] for row in listed[0]}


def test_refusals_and_metrics_come_from_the_owners(doors):
    with doors[0].client() as client:
        missing = client.get(f"{TENANTS}/nobody")
        search(client, [1], tenant="counted")
        counted = "".join(client.get("/metrics", params={"owner": n}).text for n in range(4))
        beyond = client.get("/metrics", params={"owner": 4})
    assert missing.status_code == 404 and 'no tenant "nobody"' in missing.json()["detail"]
    assert "queryshift_queries_total{" in counted and beyond.status_code == 404


def test_clients_that_hang_up_teach_nothing(doors):
    body = {"tenant": "gone", "queries": [query(number, 60) for number in range(64)] * 4}
    with doors[0].client() as client:
        search(client, [1], tenant="gone", adapt=False)
        with pytest.raises(httpx.TimeoutException):
            client.post(SEARCH, json=body, timeout=0.05)
        time.sleep(3)
        told = client.get(f"{TENANTS}/gone").json()
    assert told["batches"] == told["pending"] == 0 and told["queries"] == 1


def test_a_node_dies_under_load_and_no_tenant_is_learnt_in_two_places(
    cluster, doors, record_property
):
    folder, load = doors[0].folder, Load(doors)
    try:
        time.sleep(6)
        before = batches(doors[0])
        leases = {name: lease_of(folder, name) for name in NAMES}
        time.sleep(SAVED_S)
        killed = time.monotonic()
        (node,) = cluster.worker_nodes
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        deadline = killed + 60
        while any(times[-1] < killed + 5 for times in load.answered.values()):
            assert time.monotonic() < deadline, "a tenant is not answered again"
            time.sleep(0.2)
        time.sleep(4)
    finally:
        load.end()
    time.sleep(SAVED_S)
    rows, after = rows_of(folder), batches(doors[1])
    assert load.statuses <= {200, 503}
    moved = [name for name in NAMES if rows[name][-1]["term"] > leases[name][1]]
    stayed = [name for name in NAMES if name not in moved]
    died = {name for name, (pid, _) in leases.items() if not Path(f"/proc/{pid}").exists()}
    assert died and died <= set(moved), (died, moved)
    check_rows(rows)
    for name in NAMES:
        assert after[name] >= before[name] > 0  # what was learnt an interval before is not lost
    waits = longest_waits(load)
    record_property("moved tenants waited", [waits[name] for name in moved])
    record_property("others waited", [waits[name] for name in stayed])
    assert max(waits.values()) < 30  # on a machine that is not busy a quarter of it


@pytest.mark.parametrize("with_lock", [False, True])
def test_a_frozen_owner_is_replaced_and_when_it_wakes_up_it_neither_answers_nor_writes(
    cluster, doors, record_property, with_lock
):
    folder, load, name = doors[0].folder, Load(doors), NAMES[0]
    ray.init(address=cluster.address, namespace="queryshift", log_to_driver=False)
    try:
        time.sleep(4)
        frozen, term = lease_of(folder, name)
        owner = owner_at(frozen)
        freeze(frozen, folder / "data" / "owners" / f"{share_of(name)}.lock", with_lock)
        stopped = time.monotonic()
        call = SearchCall(name, "late", [png(1)], 3, True, [[]])
        late = owner.call.remote(("tangram", name), "search", [call], None)
        while load.answered[name][-1] < stopped + 1 or lease_of(folder, name)[1] == term:
            assert time.monotonic() < stopped + 40, "the tenant is not answered again"
            time.sleep(0.1)
        record_property("answered again after", load.answered[name][-1] - stopped)
        time.sleep(3)
        with suppress(ProcessLookupError):  # one that had the lock was ended
            os.kill(frozen, signal.SIGCONT)
        with pytest.raises((OwnerLost, ray.exceptions.RayActorError)):
            fine, told = ray.get(late, timeout=20)
            raise told if not fine else AssertionError("the old owner answered")
        gone = time.monotonic() + 20
        while Path(f"/proc/{frozen}").exists():
            assert time.monotonic() < gone, "the old owner goes on"
            time.sleep(0.1)
        time.sleep(2)
    finally:
        load.end()
        ray.shutdown()
    time.sleep(SAVED_S)
    rows = rows_of(folder)
    assert load.statuses <= {200, 503}
    assert rows[name][-1]["term"] > term
    check_rows(rows)
    record_property("longest waits", longest_waits(load))
    assert max(longest_waits(load).values()) < 30


def test_owners_of_other_settings_are_refused_and_owners_end_in_good_order(cluster, doors):
    first, second = doors
    with first.client() as client:
        search(client, range(4), noise=60, tenant="last")
        learnt(client, "last", 1)
    with pytest.raises(AssertionError, match="run with other settings"):
        Server(first.folder / "other", TOML, ("--ray", cluster.address))
    answered = asked_while_it_stops(cluster, lease_of(first.folder, "last")[0])
    second.stop()
    first.stop()
    command = [sys.executable, "-m", "queryshift", "serve", "serve.toml", "--data", "data"]
    subprocess.run(
        [*command, "--ray", cluster.address, "--stop-owners"], cwd=first.folder, check=True
    )
    with Server(first.folder, TOML) as alone, alone.client() as client:
        told = client.get(f"{TENANTS}/last").json()
    assert answered > 0 and told["queries"] == 4 + answered
    assert told["report"]["updates_in_force"] == 3 * told["batches"] >= 3


def asked_while_it_stops(cluster, pid: int) -> int:
    """How many of forty searches of the tenant "last" are answered while its owner ends."""
    ray.init(address=cluster.address, namespace="queryshift", log_to_driver=False)
    try:
        owner, calls = owner_at(pid), []
        for number in range(40):
            call = SearchCall("last", str(number), [png(number, 60)], 3, True, [[]])
            calls.append(
                owner.call.remote(("tangram", "last"), "search", [call], None, str(number))
            )
            if number == 20:
                stopping = owner.stop.remote()
        ray.get(stopping, timeout=60)
        return sum(fine for fine, _ in ray.get(calls, timeout=60))
    finally:
        ray.shutdown()
