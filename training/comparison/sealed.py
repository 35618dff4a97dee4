"""The comparison on the sealed world: the default against all methods and corrections.

python -m training.comparison.sealed FILE --rates RATES --minutes 7 --processes 15

RATES is what `training.comparison.choose` made of the grid on the development world. Each finished
stream and method is a line of the file; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing as mp
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift import Gallery, Session
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.methods.specs import Spec
from queryshift.models import load

from .corrections import PUBLISHED, firsts_by, firsts_by_hubs
from .sealed_streams import Stream, items, streams

DEFAULT = "default"  # a session without a method
KEY = ("frozen", DEFAULT, "rest", "shot", "tcr")
OTHERS = ("tent", "pl", "eata", "sar", "read", "come", "tsa")  # on one seed
FOR_OTHERS = ("online", "diverse", "clean")
DECIDING = ("online", "diverse", "zipf", "clean")  # on every seed; the others on the first
ONE_STEP = ", one step"
CHEAP = (DEFAULT + ONE_STEP, "rest" + ONE_STEP)  # online at severity 3, on one seed
WITH_HUBS = ("frozen", "rest", "shot", "rest" + ONE_STEP)
WORLDS: dict[str, tuple[Dataset, Any]] = {}  # filled before the workers are forked
OPTIONS: dict[str, Any] = {}
Work = tuple[Stream, tuple[str, ...]]


def works() -> Iterator[Work]:
    """Streams and their methods, what matters most first."""
    for seed, kinds in ((0, DECIDING), (1, DECIDING), (0, None), (2, DECIDING)):
        for stream in streams(seed):
            if (stream.kind in DECIDING) == (kinds is not None):
                yield stream, KEY
    for stream in streams(0):
        if stream.kind == "online" and stream.severity == 3:
            yield stream, CHEAP
    for stream in sorted(streams(0), key=lambda one: one.severity):
        if stream.kind in FOR_OTHERS:
            extra = ("rest+decoupled",) if stream.kind == "diverse" else ()
            yield stream, OTHERS + extra


@cache
def _answering(task: str) -> tuple[Any, Gallery]:
    name, query, gallery = TASKS[task]
    model = load(name, device=OPTIONS["device"], precision="float32")
    candidates = WORLDS[task][0].candidates
    built = Gallery.build(model[gallery], candidates, batch_size=500)
    return model[query], built.to(OPTIONS["device"])


def _session(stream: Stream, spec: str) -> Session:
    """A session with the rate and temperature that the grid chose; the default has its own."""
    encoder, gallery = _answering(stream.task)
    steps, spec = (1 if spec.endswith(ONE_STEP) else 3), spec.removesuffix(ONE_STEP)
    if spec == DEFAULT:
        return Session(encoder, gallery, seed=stream.seed, steps=steps)
    chosen = OPTIONS["rates"]["/".join(TASKS[stream.task][:2])].get(spec, {})
    method = Spec.read(spec).make(chosen)
    return Session(encoder, gallery, method, seed=stream.seed, steps=steps, guard=None)


def work(one: Work) -> list[dict[str, Any]]:
    """The lines of one stream."""
    torch.set_num_threads(1)
    stream, specs = one
    world, captions = WORLDS[stream.task]
    asked, matches = items(stream, world, captions)
    if stream.kind == "sorted":
        order = _by_content(matches, _answering(stream.task)[1])
        asked, matches = [asked[row] for row in order], [matches[row] for row in order]
    return [line for spec in specs for line in _lines(stream, spec, asked, matches)]


def _lines(
    stream: Stream, spec: str, asked: list[Any], matches: list[list[int]]
) -> Iterator[dict[str, Any]]:
    """The line of one method, and those of corrections of its answers."""
    session = _session(stream, spec)
    size = BENCHMARKS[f"tangram-o-{stream.task}"].batch
    started, found, vectors = time.perf_counter(), [], []
    for start in range(0, len(asked), size):
        answer = session.answer(asked[start : start + size])
        found.append(answer.top(1).positions[:, 0])
        vectors.append(answer.vectors)
    seconds = time.perf_counter() - started
    yield _line(stream, spec, torch.cat(found), matches, seconds)
    gallery = _answering(stream.task)[1]
    if spec in WITH_HUBS:
        yield _line(stream, f"{spec}+hubs", firsts_by_hubs(vectors, gallery), matches)
    if spec == "frozen" and stream.seed == 0:
        for name, correction in PUBLISHED.items():
            places = firsts_by(correction, vectors, gallery)
            yield _line(stream, f"frozen, {name}", places, matches)


def _line(
    stream: Stream, method: str, places: Tensor, matches: list[list[int]], seconds: float = 0.0
) -> dict[str, Any]:
    pairs = zip(places.tolist(), matches, strict=True)
    right = np.array([place in own for place, own in pairs if own])
    return {
        **asdict(stream),
        "method": method,
        "recall": round(100 * float(right.mean()), 2),
        "hits": base64.b64encode(np.packbits(right).tobytes()).decode(),
        "queries": len(right),
        "seconds": round(seconds, 2),
    }


def _by_content(matches: list[list[int]], gallery: Gallery) -> list[int]:
    """The order of queries along the first principal direction of their right candidates."""
    right = gallery.vectors[[own[0] for own in matches], 0].float()
    right = right - right.mean(dim=0)
    direction = torch.linalg.svd(right, full_matrices=False)[2][0]
    order: list[int] = (right @ direction).argsort().tolist()
    return order


def _world(task: str) -> tuple[Dataset, Any]:
    split = OPTIONS["world"]
    captions = tangram("image", split).candidates if task == "text" else None
    return tangram(task, split), captions


def _left(path: Path, tasks: list[str]) -> list[Work]:
    """Streams of which some method is not in the file yet, with those methods only."""
    done: set[tuple[Any, ...]] = set()
    if path.exists():
        for line in map(json.loads, path.read_text().splitlines()):
            done.add((Stream(*(line[n] for n in Stream.__annotations__)), line["method"]))
    left = [
        (one, tuple(spec for spec in specs if (one, spec) not in done))
        for one, specs in works()
        if one.task in tasks
    ]
    return [(one, specs) for one, specs in left if specs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rates", type=Path, required=True)
    parser.add_argument("--world", default="sealed", help="dev, to try the script out")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.device_count() else "cpu")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    rates = json.loads(options.rates.read_text())
    OPTIONS.update(vars(options), rates=rates)
    left = _left(options.file, options.tasks)
    with mp.get_context("fork").Pool(min(options.processes, len(options.tasks))) as pool:
        WORLDS.update(zip(options.tasks, pool.map(_world, options.tasks), strict=True))
    print(f"{len(left)} streams to run, worlds made", flush=True)
    count = _run(left, options.file, deadline)
    print("done" if count == len(left) else f"stopped after {count} of {len(left)}", flush=True)


def _run(left: list[Work], path: Path, deadline: float) -> int:
    """Run until the deadline; how many streams were finished."""
    finished = 0
    with mp.get_context("fork").Pool(OPTIONS["processes"]) as pool, path.open("a") as file:
        for lines in pool.imap_unordered(work, left):
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            finished += 1
            if time.monotonic() > deadline:
                pool.terminate()
                break
    return finished


if __name__ == "__main__":
    main()
