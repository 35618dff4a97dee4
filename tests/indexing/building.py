"""A build in a process of its own, which can be killed."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from hashing_model import make

import forked_commands
from forked_commands import Command

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


def start(folder: Path, to: str, *more: str, slow: float = 0.0) -> Command:
    """`queryshift gallery build` of `captions.jsonl`, in shards of 10, as a session of its own."""
    command = ["gallery", "build", "--model", MODEL, "--items", "captions.jsonl", "--to", to]
    about = {"folder": folder, "path": (str(HERE),), "SLOW_S": str(slow)}
    about["PYTHONPATH"] = os.pathsep.join([str(HERE), *sys.path])  # for the processes it starts
    return forked_commands.start(*command, "--shard", "10", "--batch", "5", *more, **about)


def built(process: Command) -> dict:
    """What a build with --json printed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def journal_lines(folder: Path) -> int:
    journals = list(folder.glob("*.building/journal.jsonl"))
    return len(journals[0].read_text().splitlines()) if journals else 0


def kill_after(process: Command, folder: Path, shards: int) -> None:
    """`kill -9` once so many shards are in the journal."""
    end = time.monotonic() + 60
    while journal_lines(folder) <= shards:
        assert process.poll() is None, process.said()[1]
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.wait()


def check_rows(ids, vectors, texts=TEXTS) -> None:
    """Every candidate once, with its own vector."""
    assert sorted(ids) == sorted(f"c{number}" for number in range(len(texts)))
    order = [int(one[1:]) for one in ids]
    np.testing.assert_allclose(np.asarray(vectors), expected(texts)[order], atol=1e-6)
