"""Run streams in parallel processes on one device; each finished one is a line of a file.

python -m training.comparison.run grid FILE --minutes 4 --processes 14
python -m training.comparison.run grid WIDER --methods pl sar --rates 1e-2 3e-2
python -m training.comparison.run mixtures FILE --minutes 8
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing as mp
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from queryshift import Gallery, Guard, Ordinary, Session
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import CAPTIONS, tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmark_methods import hubs_of, method_of
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.lab.tangram import captions, scenes
from queryshift.models import load

from . import units
from .units import Part, Unit

ORDINARY = 512  # queries that a guard has seen
WORLDS: dict[tuple[str, str, str], Dataset] = {}  # filled before the workers are forked
OPTIONS: dict[str, Any] = {}


@cache
def _answering(task: str, split: str, look: str) -> tuple[Any, Gallery]:
    name, query, gallery = TASKS[task]
    model = load(name, device=OPTIONS["device"], precision="float32")
    candidates = WORLDS[task, split, look].candidates
    return model[query], Gallery.build(model[gallery], candidates, batch_size=500)


def _queries(unit: Unit, part: Part) -> list[Any]:
    if part.shift.startswith(units.CAPTION):
        return _captions(unit.split, int(part.shift.removeprefix(units.CAPTION)))
    whole = WORLDS[unit.task, unit.split, unit.look]
    some = whole.asking(range(part.first, part.last))
    name = part.shift.removeprefix("tenth:")
    found = shifted(some, units.corruption_of(unit.task, name), part.severity, unit.seed)
    if part.shift.startswith("tenth:"):
        pairs = enumerate(zip(found, some.queries, strict=True))
        return [new if row % 10 == 0 else old for row, (new, old) in pairs]
    return found


def _captions(split: str, offset: int) -> list[str]:
    """One caption of each scene; with no offset those that the text task asks for."""
    return [
        captions(scene)[(row + offset) % CAPTIONS] for row, scene in enumerate(scenes(split, 2000))
    ]


def _session(unit: Unit, spec: str, point: units.GridPoint | None) -> Session:
    encoder, gallery = _answering(unit.task, unit.split, unit.look)
    if spec == units.DEFAULT:
        return Session(encoder, gallery, lr=None if point is None else point[0], seed=unit.seed)
    guard = _guard(unit.task) if spec == units.GUARDED else None
    spec = "rest" if guard else spec
    method, hubs = method_of(spec, unit.row), hubs_of(spec)
    if point is not None:
        method = replace(method, lr=point[0], temperature=point[1])
    watch, seed = unit.watch_angle, unit.seed
    return Session(encoder, gallery, method, watch_angle=watch, seed=seed, guard=guard, hubs=hubs)


@cache
def _guard(task: str) -> Guard:
    """A guard that knows queries of the development world: none that is asked."""
    encoder, gallery = _answering(task, "dev", "plain")
    some = WORLDS[task, "dev", "plain"].queries[:ORDINARY]
    known = replace(Ordinary.of(encoder, gallery, some), gallery=None)  # worlds are alike
    return Guard(ordinary=known)


def work(unit: Unit) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    queries = [_queries(unit, part) for part in unit.parts]
    matches = WORLDS[unit.task, unit.split, unit.look].matches
    lines = []
    for spec in unit.methods:
        for point in unit.grid or (None,):
            session, started = _session(unit, spec, point), time.perf_counter()
            found = [
                _ranks(session, unit, part, asked, matches)
                for part, asked in zip(unit.parts, queries, strict=True)
            ]
            lines.append(_line(unit, spec, session, found, time.perf_counter() - started))
    return lines


def _ranks(
    session: Session, unit: Unit, part: Part, asked: list[Any], matches: Any
) -> torch.Tensor:
    right = matches[part.first : part.last]
    return run(session, asked, right, unit.seed, unit.row.batch, adapt=part.adapt).ranks


def _line(
    unit: Unit, spec: str, session: Session, found: list[torch.Tensor], seconds: float
) -> dict[str, Any]:
    method, history = session.method, session.history
    angles = {
        name: [round(getattr(one, name), 2) for one in history if getattr(one, name) is not None]
        for name in ("domain_angle", "applied_angle", "drift")
        if unit.watch_angle
    }
    return {
        **unit.about(),
        "key": unit.key,
        "method": spec,
        "lr": method.lr,
        "temperature": method.temperature,
        "recall": [
            {k: round(100 * float((r <= k).double().mean()), 2) for k in (1, 5, 10)} for r in found
        ],
        "hits": [base64.b64encode(np.packbits((r == 1).numpy()).tobytes()).decode() for r in found],
        "resets": session.state.resets,
        "adapted": sum(one.adapted for one in history),
        "seconds": round(seconds, 2),
        **{name: round(sum(v) / len(v), 2) for name, v in angles.items() if v},
    }


def _worlds(wanted: set[tuple[str, str, str]]) -> None:
    with mp.get_context("fork").Pool(min(len(wanted), OPTIONS["processes"])) as pool:
        keys = sorted(wanted)
        for key, world in zip(keys, pool.map(_world, keys), strict=True):
            WORLDS[key] = world


def _world(key: tuple[str, str, str]) -> Dataset:
    task, split, look = key
    return tangram(task, split, look=look)


def _left(path: Path, wanted: Iterator[Unit]) -> list[Unit]:
    """Units of which some method is not in the file yet, with those methods only."""
    done: set[tuple[str, str]] = set()
    if path.exists():
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        done = {(line["key"], line["method"]) for line in lines}
    left = [
        replace(unit, methods=tuple(m for m in unit.methods if (unit.key, m) not in done))
        for unit in wanted
    ]
    return [unit for unit in left if unit.methods]


def _wanted(options: argparse.Namespace) -> Iterator[Unit]:
    grid = units.grid(options.methods, options.rates)
    for unit in grid if options.what == "grid" else units.mixtures():
        if unit.task in options.tasks and unit.name in (options.names or [unit.name]):
            yield unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("grid", "mixtures"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", nargs="*", help="only units for these, such as forgetting")
    parser.add_argument("--methods", nargs="*", default=units.TUNED, help="of the grid")
    parser.add_argument("--rates", nargs="*", type=float, default=units.RATES, help="of the grid")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.device_count() else "cpu")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    OPTIONS.update(device=options.device, processes=options.processes)
    left = _left(options.file, _wanted(options))
    count = 0
    if left:
        guarded = {(u.task, "dev", "plain") for u in left if units.GUARDED in u.methods}
        _worlds({(unit.task, unit.split, unit.look) for unit in left} | guarded)
        print(f"{len(left)} streams to run, worlds made", flush=True)
        count = _run(left, options.file, deadline)
    print("done" if count == len(left) else f"stopped after {count} of {len(left)}", flush=True)


def _run(left: list[Unit], path: Path, deadline: float) -> int:
    """Run the units until the deadline; how many were finished."""
    count = 0
    with mp.get_context("fork").Pool(OPTIONS["processes"]) as pool, path.open("a") as file:
        for count, lines in enumerate(pool.imap_unordered(work, left), 1):
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            if count % 50 == 0:
                print(f"{count} of {len(left)}", flush=True)
            if time.monotonic() > deadline:
                pool.terminate()
                break
    return count


if __name__ == "__main__":
    main()
