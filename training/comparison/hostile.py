"""Hostile streams through methods, bare and guarded; each finished run is a line of a file.

python -m training.comparison.hostile docs/results/hostile.jsonl --seeds 0 1 2
python -m training.comparison.hostile FILE --world dev --guards bare guarded guarded:spread=0.3
python -m training.comparison.hostile FILE --methods default "rate not times the uncertainty"
python -m training.comparison.hostile_table docs/results/hostile.jsonl

A method may be a name of `without_rules.py`: the guarded default without one of its rules.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from queryshift import Gallery, Guard, GuardWarning, ReferenceQueries, Session
from queryshift.lab.tangram import captions, scenes
from queryshift.methods.specs import Spec
from queryshift.models import load

from . import variants, without_rules
from .hostile_streams import BATCH, SCENES, STREAMS, Asked, World

DEFAULT = "default"  # the session that is told no method
METHODS = ("frozen", "rest", "tcr", "shot", DEFAULT)
BARE, GUARDED, KNOWING = "bare", "guarded", "ordinary"
AT_ONCE = 4  # runs of a stream that are a process's next work
CLEAN, SAMPLE = 2048, 512  # clean queries afterwards; ordinary ones that a guard may know
Run = tuple[str, str]  # a method's spec and its guard
Work = tuple[str, str, int, list[Run]]  # a stream, its world and seed, and what goes through it


@cache
def world_of(split: str, seed: int, device: str) -> World:
    """The world that streams are drawn from, its gallery built."""
    model = load("tangram", device=device, precision="float32")
    texts = [text for scene in scenes(split, SCENES) for text in captions(scene)]
    return World(split, seed, model["image"], Gallery.build(model["text"], texts, batch_size=500))


@lru_cache(maxsize=1)
def stream_of(stream: str, world: World, batches: int) -> list[Asked]:
    """The queries of a stream."""
    return list(STREAMS[stream](world, batches))


def guard_of(name: str, world: World) -> Guard | None:
    """The guard that a name stands for: "guarded:spread=0.3" changes a setting."""
    kind, _, changes = name.partition(":")
    pairs = [one.split("=") for one in changes.split(",") if one]
    settings: dict[str, Any] = {key: float(value) for key, value in pairs}
    if kind == KNOWING:
        sample = [world.pictures[scene] for scene in world.order("ordinary", SAMPLE)]
        settings["reference"] = ReferenceQueries.of(world.encoder, world.gallery, sample)
    return None if kind == BARE else Guard(**settings)


def session_of(run: Run, world: World) -> AbstractContextManager[Session]:
    """A session that has learnt nothing; a rule that it leaves out is back after the block."""
    guard, encoder = guard_of(run[1], world), world.encoder
    if run[0] in (DEFAULT, *without_rules.NAMES):
        return variants.session_of(run[0], encoder, world.gallery, guard=guard)
    spec = Spec.read(run[0])
    return nullcontext(Session(encoder, world.gallery, spec.make(), hubs=spec.hubs, guard=guard))


def recall(session: Session, asked: Sequence[Asked], adapt: bool, owner: Sequence[int]) -> float:
    """Recall at 1 of the queries that count."""
    right = []
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        first = session.answer([one.picture for one in batch], adapt=adapt).top(1).positions[:, 0]
        pairs = zip(batch, first.tolist(), strict=True)
        right += [owner[place] == one.scene for one, place in pairs if one.counted]
    return round(100 * sum(right) / len(right), 2)


def lines(work: Work, size: dict[str, Any]) -> list[dict[str, Any]]:
    """One stream through all methods: recall on it, then of clean queries, adapted to or not."""
    stream, split, seed, runs = work
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", GuardWarning)
    world = world_of(split, seed, size["device"])
    asked = stream_of(stream, world, size["batches"])
    clean = [Asked(world.pictures[scene], scene) for scene in world.order("after", size["clean"])]
    owner = [place // 5 for place in range(len(world.gallery))]
    found = []
    for run in runs:
        started = time.perf_counter()
        line = {"world": split, "seed": seed, "stream": stream, "method": run[0], "guard": run[1]}
        with session_of(run, world) as session:
            line["recall"] = recall(session, asked, True, owner)
            line["learnt"] = sum(one.adapted for one in session.history)
            line["batches"], line["resets"] = len(session.history), session.state.resets
            line["after"] = recall(session.fork(), clean, False, owner)
            line["after, adapting"] = recall(session, clean, True, owner)
        found.append({**line, "seconds": round(time.perf_counter() - started, 1)})
    return found


def left(path: Path, options: argparse.Namespace) -> Iterator[Work]:
    """Streams with some of the runs of them that are not in the file yet, the longest first."""
    kept = [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []
    keys = ("world", "seed", "stream", "method", "guard")
    done = {tuple(line[key] for key in keys) for line in kept}
    only = {"frozen": [BARE], **{name: [GUARDED] for name in without_rules.NAMES}}
    guards = {spec: only.get(spec, options.guards) for spec in options.methods}
    runs = [(spec, guard) for spec in options.methods for guard in guards[spec]]
    every = product(options.seeds, options.streams)
    for seed, stream in sorted(every, key=lambda one: one[1] != "diverse"):
        wanted = [run for run in runs if (options.world, seed, stream, *run) not in done]
        for start in range(0, len(wanted), AT_ONCE):
            yield stream, options.world, seed, wanted[start : start + AT_ONCE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--world", choices=("dev", "test"), default="test")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=STREAMS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--guards", nargs="*", default=[BARE, GUARDED, KNOWING])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--clean", type=int, default=CLEAN)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.device_count() else "cpu")
    options = parser.parse_args()
    size = {name: getattr(options, name) for name in ("batches", "clean", "device")}
    with mp.get_context("spawn").Pool(options.processes) as pool, options.file.open("a") as file:
        work = list(left(options.file, options))
        for found in pool.imap_unordered(partial(lines, size=size), work, chunksize=1):
            file.writelines(json.dumps(line) + "\n" for line in found)
            file.flush()
            print(*(list(line.values()) for line in found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
