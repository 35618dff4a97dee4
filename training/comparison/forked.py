"""Streams in forked processes until a deadline: each that is finished is in a file at once."""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing as mp
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from queryshift.lab.datasets.tangram import TASKS

from .tables import Line


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all such commands have."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("file", type=Path)
    options.add_argument("--tasks", nargs="*", default=list(TASKS))
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--device", default="cuda" if torch.cuda.device_count() else "cpu")
    return options


def finished(path: Path) -> list[Line]:
    """The lines of the streams that are in the file; one that was cut off does not count."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def run(
    work: Callable[[Any], Iterable[Line]],
    left: Sequence[Any],
    options: argparse.Namespace,
    worlds: dict[str, Any],
    make_world: Callable[[str], Any],
) -> None:
    """Make the world of each task, then run streams until the time is up; print how far it got."""
    deadline, fork = time.monotonic() + 60 * options.minutes, mp.get_context("fork")
    with fork.Pool(min(options.processes, len(options.tasks))) as pool:
        worlds.update(zip(options.tasks, pool.map(make_world, options.tasks), strict=True))
    print(f"{len(left)} streams to run, worlds made", flush=True)
    with fork.Pool(options.processes) as pool, options.file.open("a") as file:
        for count, lines in enumerate(pool.imap_unordered(work, left), 1):
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            if count % 10 == 0:
                print(f"{count} of {len(left)} streams", flush=True)
            if time.monotonic() > deadline and count < len(left):
                pool.terminate()
                print(f"stopped after {count} of {len(left)} streams", flush=True)
                return
    print("done", flush=True)


def packed(hits: Any) -> str:
    """One bit a query, as text."""
    return base64.b64encode(np.packbits(hits).tobytes()).decode()
