"""A build in a process of its own, which can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from hashing_model import make

HERE = Path(__file__).parent
MODEL = "hashing_model:make"
TEXTS = [f"caption {number}" for number in range(100)]


def table(folder: Path, texts=TEXTS) -> Path:
    path = folder / "captions.jsonl"
    rows = [{"id": f"c{number}", "text": text} for number, text in enumerate(texts)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def expected(texts=TEXTS) -> np.ndarray:
    return make().encode(list(texts)).numpy()


def start(folder: Path, to: str, *more: str, slow: float = 0.0) -> subprocess.Popen:
    """`queryshift gallery build` of `captions.jsonl`, in shards of 10, as a session of its own."""
    command = ["gallery", "build", "--model", MODEL, "--items", "captions.jsonl", "--to", to]
    paths = [str(HERE), *sys.path]
    environment = {**os.environ, "SLOW_S": str(slow), "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-m", "queryshift", *command, "--shard", "10", "--batch", "5", *more],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def built(process: subprocess.Popen) -> dict:
    """What a build with --json printed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def journal_lines(folder: Path) -> int:
    journals = list(folder.glob("*.building/journal.jsonl"))
    return len(journals[0].read_text().splitlines()) if journals else 0


def kill_after(process: subprocess.Popen, folder: Path, shards: int) -> None:
    """`kill -9` once so many shards are in the journal."""
    end = time.monotonic() + 60
    while journal_lines(folder) <= shards:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def check_rows(ids, vectors, texts=TEXTS) -> None:
    """Every candidate once, with its own vector."""
    assert sorted(ids) == sorted(f"c{number}" for number in range(len(texts)))
    order = [int(one[1:]) for one in ids]
    np.testing.assert_allclose(np.asarray(vectors), expected(texts)[order], atol=1e-6)
