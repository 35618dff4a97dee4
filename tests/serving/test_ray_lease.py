"""One holder at a time, also without a cluster: leases, terms, and who owns whom."""

import asyncio
import doctest
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from queryshift.errors import BadFile
from queryshift.serving import ray_lease, ray_ring
from queryshift.serving.ray_holders import Holders
from queryshift.serving.ray_lease import Lease, LeaseLost
from queryshift.serving.ray_ring import Ring
from queryshift.serving.ray_shares import HEARTBEATS, Shares
from queryshift.serving.ray_tenants import RayTenants
from queryshift.serving.settings import ServeSettings
from queryshift.serving.tenant_files import TenantFiles

SECONDS = 1.0
HOLD = """
import sys, time
from pathlib import Path
from queryshift.serving.ray_lease import Lease, LeaseLost
from queryshift.serving.tenant_files import TenantFiles
lease = Lease(Path(sys.argv[1]), 3, 1.0)
assert lease.free(True, 0) and lease.take()
files = TenantFiles(Path(sys.argv[1]), "tenant", lease.committing)
files.save("first", None)
print(lease.term, flush=True)
while True:
    time.sleep(0.05)
    try:
        lease.renew()
    except LeaseLost:
        break
print(lease.held, flush=True)
try:
    files.save("late", None)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds share 3."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"1\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


STUCK = """
import sys, time
from pathlib import Path
from queryshift.serving.ray_lease import Lease
lease = Lease(Path(sys.argv[1]), 0, 1.0, owner=0)
assert lease.free(True, 0) and lease.take()
with lease._locked(1.0):
    print("locked", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def clock(monkeypatch):
    """The clock of leases in this process; it stands still."""
    clock = SimpleNamespace(now=1000.0)
    ours = SimpleNamespace(monotonic=lambda: clock.now, sleep=time.sleep)
    monkeypatch.setattr(ray_lease, "time", ours)
    return clock


def see_heartbeat(folder, lease):
    """Wait for the next heartbeat of share 3, and let a lease see it."""
    file, deadline = folder / "owners" / "3.lease", time.monotonic() + 30
    before = file.read_text()
    while file.read_text() == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not lease.free(False, 0)


def freeze(folder, process):
    """Stop a process that holds share 3 while it has not the lock of the share."""
    with (folder / "owners" / "3.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(process.pid, signal.SIGSTOP)
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)


def test_examples():
    assert doctest.testmod(ray_ring).failed == 0


def test_what_somebody_renews_is_not_free(tmp_path, holder, clock):
    second = Lease(tmp_path, 3, SECONDS)
    for _ in range(12):
        see_heartbeat(tmp_path, second)
        clock.now += 0.9 * SECONDS
    other = Lease(tmp_path, 4, SECONDS)  # another share
    assert other.free(True, 0) and other.take() and other.held and other.term == 1


def test_the_share_of_a_dead_process_is_taken_when_the_seconds_of_its_lease_are_over(
    tmp_path, holder, clock
):
    second = Lease(tmp_path, 3, SECONDS)
    for _ in range(2):
        see_heartbeat(tmp_path, second)
    holder.kill()
    holder.wait()
    second.free(False, 0)
    clock.now += 0.99 * SECONDS
    assert not second.free(False, 0)
    clock.now += 0.02 * SECONDS
    assert second.free(False, 0) and second.take() and second.term == 2 and second.held


def test_a_holder_that_was_never_seen_alive_is_waited_for_but_not_by_a_spare(
    tmp_path, holder, clock
):
    settings = ServeSettings(data=tmp_path, ray={"owners": 4, "lease_seconds": SECONDS})
    first, spare = Shares(settings, 0), Shares(settings, 1, spare=True)
    freeze(tmp_path, holder)
    assert (first.step(), spare.step()) == ([0], [1])
    clock.now += 2 * SECONDS
    assert 3 not in first.step() and 3 in spare.step()


def test_who_is_frozen_with_the_lock_of_its_share_costs_no_other_share_and_is_to_be_ended(
    tmp_path, clock
):
    settings = ServeSettings(data=tmp_path, ray={"owners": 2, "lease_seconds": SECONDS})
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, tmp_path], stdout=subprocess.PIPE
    ) as frozen:
        assert frozen.stdout.readline() == b"locked\n"
        shares, stuck = Shares(settings, 1, spare=True), []
        for _ in range(20):
            assert shares.step() == [1] and shares._leases[1].held
            stuck += shares.newly_stuck()
            clock.now += 0.2 * SECONDS
        assert stuck == [0]
        frozen.kill()
    assert shares.step() == [0, 1] and shares.newly_stuck() == set()
    assert shares._leases[0].term == 2


def test_a_frozen_process_wakes_up_and_can_neither_hold_nor_write(tmp_path, holder):
    second = Lease(tmp_path, 3, SECONDS)
    for _ in range(2):
        see_heartbeat(tmp_path, second)
    freeze(tmp_path, holder)
    started = time.monotonic()
    while not (second.free(False, 0) and second.take()):
        time.sleep(0.02)
    assert time.monotonic() - started >= 0.9 * SECONDS
    TenantFiles(tmp_path, "tenant", second.committing).save("second", None)
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.stdout.readline() == b"False\n"
    assert holder.stdout.readline() == b"BadFile\n"
    assert TenantFiles(tmp_path, "tenant").record.read_text() == "second"


def test_who_cannot_renew_stops_before_others_may_begin(tmp_path):
    first = Lease(tmp_path, 0, SECONDS)
    assert first.free(True, 0) and first.take() and first.held
    second = Lease(tmp_path, 0, SECONDS)
    second.free(False, 0)
    first.renew()
    second.free(False, 0)
    while not (second.free(False, 0) and second.take()):
        ours = first.held
        time.sleep(0.01)
    assert not ours and not first.held and second.held
    with pytest.raises(LeaseLost):
        first.renew()
    with pytest.raises(BadFile, match="another process"), first.committing():
        raise AssertionError


def test_what_was_given_back_is_for_the_owner_it_is_meant_for(tmp_path):
    first = Lease(tmp_path, 0, SECONDS)
    assert first.free(True, 0) and first.take()
    first.release()
    assert json.loads((tmp_path / "owners" / "0.lease").read_text())["holder"] == ""
    other, own = Lease(tmp_path, 0, SECONDS), Lease(tmp_path, 0, SECONDS)
    assert not other.free(False, 0)
    assert own.free(True, 0) and own.take() and own.term == 2


def test_of_two_who_take_at_once_one_gets_it(tmp_path):
    both = [Lease(tmp_path, 0, SECONDS) for _ in range(2)]
    assert [lease.free(True, 0) for lease in both] == [True, True]
    assert [lease.take() for lease in both] == [True, False]


def test_a_share_that_could_not_be_taken_is_not_ours(tmp_path, monkeypatch):
    """Taken for ours, the next heartbeat would find another holder, and the process would end."""
    lease = Lease(tmp_path, 0, SECONDS)
    assert lease.free(True, 0)
    with monkeypatch.context() as patch:
        patch.setattr(ray_lease, "write_text", full_disk)
        with pytest.raises(BadFile):
            lease.take()
    assert lease.term == 0 and not lease.held
    assert lease.free(True, 0) and lease.take() and lease.term == 1


def full_disk(*_):
    raise BadFile("the disk is full")


def test_a_share_whose_files_are_damaged_costs_no_other(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(ray_lease, "PATIENCE_S", 0.0)
    settings = ServeSettings(data=tmp_path, ray={"owners": 3, "lease_seconds": 0.5})
    shares = Shares(settings, 1)
    (tmp_path / "owners" / "0.term").write_text("no number")
    for _ in range(3):
        clock.now += 0.2
        assert shares.step() == [1, 2]
    assert [lease.held for lease in shares._leases] == [False, True, True]


def test_leases_are_renewed_while_tenants_are_read_and_reading_is_tried_again(tmp_path):
    """Reading them takes as long as three leases, and fails at first."""
    settings = ServeSettings(data=tmp_path, ray={"owners": 2, "lease_seconds": 0.5})
    shares, tries = Shares(settings, 0), []

    async def know_own():
        tries.append(shares.terms)
        seen = set()
        while len(seen) < 3 * HEARTBEATS:
            seen.add((tmp_path / "owners" / "0.lease").read_text())
            await asyncio.sleep(0.005)
        if len(tries) == 1:
            raise OSError("the disk is away")

    async def check():
        holding = asyncio.create_task(shares.hold(know_own, lambda owner: None))
        while not shares.terms:
            await asyncio.sleep(0.05)
        holding.cancel()
        await shares.give_back()

    asyncio.run(asyncio.wait_for(check(), 60))
    assert tries == [{}, {}] and shares.terms == {}
    assert Lease(tmp_path, 0, 0.5).free(True, 0)


def test_a_door_goes_on_watching_an_owner_whatever_goes_wrong():
    """As where a cluster's head is away for a moment: a watch that ended would miss its return."""
    door, state = RayTenants.__new__(RayTenants), {"terms": {0: 1}}
    told = [state, ConnectionError(), ValueError("the head is away"), state]
    seen = []

    async def ask(number, method, seconds):
        seen.append(door._calls.holders.present())
        if not told:
            raise asyncio.CancelledError
        one = told.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    door._calls = SimpleNamespace(holders=Holders(1), ask=ask)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(door._watch(0))
    assert seen == [[], [0], [0], [], [0]]


def test_all_owners_have_their_share_and_always_the_same_tenants():
    names = [f"tenant-{number}" for number in range(4000)]
    ring, again, larger = Ring(4), Ring(4), Ring(5)
    owners = [ring.owner("shop", name) for name in names]
    assert owners == [again.owner("shop", name) for name in names]
    shares = Counter(owners)
    assert set(shares) == {0, 1, 2, 3} and max(shares.values()) < 2 * min(shares.values())
    moved = [
        (old, new)
        for old, name in zip(owners, names, strict=True)
        if (new := larger.owner("shop", name)) != old
    ]
    assert len(moved) < len(names) / 3 and {new for _, new in moved} == {4}
