"""Memory maps of vectors of any length are searched where they lie."""

import subprocess
import sys

import pytest

MEASURE = """
import resource, sys
import numpy as np, torch
from queryshift import Gallery
kind, count, path = sys.argv[1], 100_000, sys.argv[2]
stored = np.lib.format.open_memmap(path, "w+", dtype=kind, shape=(count, 256))
drawn = np.random.default_rng(0)
for start in range(0, count, 10_000):
    stored[start : start + 10_000] = 3 * drawn.standard_normal((10_000, 256), dtype=np.float32)
stored.flush()
del stored
vectors = np.load(path, mmap_mode="r")
queries = torch.nn.functional.normalize(torch.from_numpy(vectors[:64].astype(np.float32)))
torch.mm(queries, queries.T).topk(3)  # libraries are loaded
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
open("/proc/self/clear_refs", "w").write("5")  # the height is counted from here
before = rss()
gallery = Gallery.from_vectors(range(count), vectors)
assert gallery.search(queries, 10).positions[:, 0].tolist() == list(range(64))
height = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print((int(height.split()[1]) * 1024 - before) / vectors.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("kind", "most"), [("float32", 1.9), ("float16", 2.6)])
def test_a_memory_map_of_long_vectors_is_not_copied(kind, most, tmp_path):
    """Its pages are counted once when they are read; beyond them are ids, lengths and chunks."""
    asked = [sys.executable, "-c", MEASURE, kind, str(tmp_path / "long.npy")]
    ran = subprocess.run(asked, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) <= most
