"""One owner at a time, also without a cluster: leases, terms, and who owns whom."""

import doctest
import subprocess
import sys
import threading
from collections import Counter

from queryshift.serving import ray_ring
from queryshift.serving.ray_lease import Lease
from queryshift.serving.ray_ring import Ring

HOLD = """
import sys, time
from pathlib import Path
from queryshift.serving.ray_lease import Lease
print(Lease(Path(sys.argv[1]), 3).term, flush=True)
time.sleep(600)
"""


def test_examples():
    assert doctest.testmod(ray_ring).failed == 0


def test_the_second_waits_until_the_first_is_dead(tmp_path):
    held = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    found: list[Lease] = []
    second = threading.Thread(target=lambda: found.append(Lease(tmp_path, 3)), daemon=True)
    try:
        assert held.stdout.readline() == b"1\n"
        Lease(tmp_path, 4)  # another owner's is another lease
        second.start()
        second.join(1)
        assert second.is_alive() and not found
    finally:
        held.kill()
        held.wait()
        held.stdout.close()
    second.join(30)
    assert found[0].term == 2


def test_all_owners_have_their_share_and_always_the_same_tenants():
    names = [f"tenant-{number}" for number in range(4000)]
    owners = [Ring(4).owner("shop", name) for name in names]
    assert owners == [Ring(4).owner("shop", name) for name in names]
    shares = Counter(owners)
    assert set(shares) == {0, 1, 2, 3} and max(shares.values()) < 2 * min(shares.values())
    moved = [
        (old, new)
        for old, name in zip(owners, names, strict=True)
        if (new := Ring(5).owner("shop", name)) != old
    ]
    assert len(moved) < len(names) / 3 and {new for _, new in moved} == {4}
