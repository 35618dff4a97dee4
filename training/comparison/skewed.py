"""Streams that ask for few of the gallery's scenes, and what REST's rate costs clean text.

python -m training.comparison.skewed skew FILE --tasks text image audio video --seeds 0 1
python -m training.comparison.skewed rates FILE --seeds 0
"""

from __future__ import annotations

import argparse
import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from queryshift import METHODS, Gallery, Session
from queryshift.encoders.encoder import Encoder
from queryshift.lab.corruptions import Corruption, find
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.stream_evaluation import StreamResult, run, shifted
from queryshift.models import load

from .dev_shifts import DEV, dev_shift

QUERIES, SEVERITY = 2000, 3
SCENES = (2000, 200, 50, 10)  # ever asked for, of the gallery's 2,000
SHIFTS = {
    "text": ("ocr", "character_swap"),
    "image": ("gaussian_noise", "contrast"),
    "audio": ("traffic", "wind"),
    "video": ("motion_blur",),
}
COMPARED = ("frozen", "shot", "tcr", "rest")
RATES = (1e-4, 3e-4, 1e-3, 3e-3)  # those of the grid


Methods = list[tuple[str, float | None]]  # names, each with a rate or the recommended one


@dataclass(frozen=True)
class Stream:
    """2,000 queries for some scenes of a world, under one shift."""

    name: str  # what it is for
    task: str
    split: str
    shift: str
    scenes: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.name}/{self.task}/{self.split}/{self.shift}/{self.scenes}/{self.seed}"


def skew(task: str, seed: int) -> Iterator[tuple[Stream, Methods]]:
    """Every shift and number of scenes of a task, with the recommended rates."""
    for shift, scenes in product(SHIFTS[task], SCENES):
        stream = Stream("skew", task, "test", shift, scenes, seed)
        yield stream, [(method, None) for method in COMPARED]


def rates(task: str, seed: int) -> Iterator[tuple[Stream, Methods]]:
    """Clean and shifted queries of the development world, with every rate of the grid."""
    for shift in ("clean", *map(str, range(len(DEV[task]))), "mixed"):
        stream = Stream("rates", task, "dev", shift, QUERIES, seed)
        yield stream, [("frozen", None), *(("rest", rate) for rate in RATES)]


@cache
def world_of(task: str, split: str) -> Dataset:
    return tangram(task, split, QUERIES)


@cache
def answering(task: str, split: str) -> tuple[Encoder, Gallery]:
    name, query, gallery = TASKS[task]
    model, candidates = load(name), world_of(task, split).candidates
    return model[query], Gallery.build(model[gallery], candidates, batch_size=500)


def asked(stream: Stream) -> Dataset:
    """The chosen scenes asked for again and again, each time under another id: another draw.

    Fewer scenes are a part of more. A scene is described by each of its captions in turn.
    """
    world = world_of(stream.task, stream.split)
    order = np.random.default_rng(stream.seed).permutation(QUERIES)
    chosen = sorted(order[: stream.scenes].tolist())
    rounds = [(scene, turn) for turn in range(QUERIES // len(chosen)) for scene in chosen]
    some = world.asking([scene for scene, _ in rounds])
    ids = [f"{scene}/{turn}" if turn else str(scene) for scene, turn in rounds]
    if stream.task == "text":
        captions = world_of("image", stream.split).candidates
        texts = [captions[CAPTIONS * scene + (scene + turn) % CAPTIONS] for scene, turn in rounds]
        some = replace(some, queries=texts)
    return replace(some, query_ids=ids)


def corruption_of(stream: Stream) -> Corruption | None:
    if stream.shift == "clean":
        return None
    if stream.split == "dev":
        return dev_shift(stream.task, stream.shift)
    return find(TASKS[stream.task][1], stream.shift)


def lines(
    stream: Stream, methods: Methods, done: set[tuple[str, str, float]]
) -> Iterator[dict[str, Any]]:
    """The stream through every method that is not in the file yet."""
    encoder, gallery = answering(stream.task, stream.split)
    sessions = [
        Session(encoder, gallery, METHODS[name](), lr=rate, seed=stream.seed, guard=None)
        for name, rate in methods
    ]
    left = [s for s in sessions if (stream.key, s.method.name, s.method.lr) not in done]
    if not left:
        return
    some = asked(stream)
    queries = shifted(some, corruption_of(stream), SEVERITY, stream.seed)
    for session in left:
        yield line(stream, session, run(session, queries, some.matches, stream.seed))


def line(stream: Stream, session: Session, outcome: StreamResult) -> dict[str, Any]:
    right = np.packbits((outcome.ranks == 1).numpy()).tobytes()
    return {
        "name": stream.name,
        "task": stream.task,
        "split": stream.split,
        "scenes": stream.scenes,
        "seed": stream.seed,
        "shift": stream.shift,
        "key": stream.key,
        "method": session.method.name,
        "lr": session.method.lr,
        "temperature": session.method.temperature,
        "recall": {k: round(outcome.recall(k), 2) for k in (1, 5, 10)},
        "hits": base64.b64encode(right).decode(),
        "seconds": round(outcome.seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("skew", "rates"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--tasks", nargs="*", default=["text"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    deadline = time.monotonic() + 60 * options.minutes
    options.file.touch()
    kept = map(json.loads, options.file.read_text().splitlines())
    done = {(old["key"], old["method"], old["lr"]) for old in kept}
    with options.file.open("a") as file:
        for seed, task in product(options.seeds, options.tasks):
            for stream, methods in (skew if options.what == "skew" else rates)(task, seed):
                for new in lines(stream, methods, done):
                    file.write(json.dumps(new) + "\n")
                    file.flush()
                    if time.monotonic() > deadline:
                        return


if __name__ == "__main__":
    main()
