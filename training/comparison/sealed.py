"""The comparison on the sealed world: the default against all methods and corrections.

python -m training.comparison.sealed FILE --rates RATES --minutes 7 --processes 15

RATES is what `training.comparison.choose` made of the grid on the development world. Each finished
stream and method is a line of the file; the same command goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift import Gallery
from queryshift.errors import Error
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.models import load

from . import forked
from .corrections import PUBLISHED, firsts_by, firsts_by_hubs
from .sealed_plan import WITH_HUBS, Work, session_of, works
from .sealed_streams import QUERIES, Stream, items, phases
from .tables import Line

WORLDS: dict[str, tuple[Dataset, Any]] = {}  # filled before the workers are forked
OPTIONS: dict[str, Any] = {}


@cache
def _answering(task: str) -> tuple[Any, Gallery]:
    name, query, gallery = TASKS[task]
    model = load(name, device=OPTIONS["device"], precision="float32")
    candidates = WORLDS[task][0].candidates
    built = Gallery.build(model[gallery], candidates, batch_size=500)
    return model[query], built.to(OPTIONS["device"])


def work(one: Work) -> list[Line]:
    """The lines of one stream."""
    torch.set_num_threads(1)
    stream, specs = one
    world, captions = WORLDS[stream.task]
    asked, matches = items(stream, world, captions)
    if stream.kind == "sorted":
        order = _by_content(matches[:QUERIES], _answering(stream.task)[1])
        order += range(QUERIES, len(asked))
        asked, matches = [asked[row] for row in order], [matches[row] for row in order]
    return [line for spec in specs for line in _lines_or_none(stream, spec, asked, matches)]


def _lines_or_none(
    stream: Stream, spec: str, asked: list[Any], matches: list[list[int]]
) -> list[Line]:
    """A method that fails is named in the log, and does not end the run of the others."""
    try:
        return list(_lines(stream, spec, asked, matches))
    except (Error, RuntimeError) as error:
        print(f"{stream}, {spec}: {error}", flush=True)
        return []


def _lines(stream: Stream, spec: str, asked: list[Any], matches: list[list[int]]) -> Iterator[Line]:
    """The lines of one method, and those of corrections of its answers."""
    encoder, gallery = _answering(stream.task)
    session = session_of(stream, spec, (encoder, gallery), OPTIONS["rates"])
    size = BENCHMARKS[f"tangram-o-{stream.task}"].batch
    started, found, vectors = time.perf_counter(), [], []
    for start in range(0, len(asked), size):
        answer = session.answer(asked[start : start + size])
        found.append(answer.top(1).positions[:, 0])
        vectors.append(answer.vectors)
    seconds = round(time.perf_counter() - started, 2)
    resets = session.state.resets
    for line in _phases(stream, torch.cat(found), matches):
        name = OPTIONS["label"] or spec
        yield {**line, "method": name, "seconds": seconds, "resets": resets}
    for name, places in _corrected(stream, spec, vectors, gallery):
        for line in _phases(stream, places, matches):
            yield {**line, "method": name}


def _corrected(
    stream: Stream, spec: str, vectors: list[Tensor], gallery: Gallery
) -> Iterator[tuple[str, Tensor]]:
    """First places of a method's vectors after corrections for hubs, each with its name."""
    if spec in WITH_HUBS:
        yield f"{spec}+hubs", firsts_by_hubs(vectors, gallery)
    if spec == "frozen" and stream.seed == 0:
        for name, correction in PUBLISHED.items():
            yield f"frozen, {name}", firsts_by(correction, vectors, gallery)


def _phases(stream: Stream, places: Tensor, matches: list[list[int]]) -> Iterator[Line]:
    """A line for each phase of the stream; queries without a right answer are not counted."""
    found: dict[str, list[bool]] = {}
    for place, own, phase in zip(places.tolist(), matches, phases(stream), strict=True):
        if own:
            found.setdefault(phase, []).append(place in own)
    for phase, right in found.items():
        yield {
            **asdict(stream),
            "phase": phase,
            "recall": round(100 * float(np.mean(right)), 2),
            "hits": forked.packed(right),
            "queries": len(right),
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


def _left(path: Path, tasks: list[str], seeds: list[int], methods: list[str] | None) -> list[Work]:
    """Streams of which some method is not in the file yet, with those methods only."""
    done = {(Stream.of(line), line["method"]) for line in forked.finished(path)}
    left = [
        (one, tuple(m for m in specs if (one, m) not in done and (not methods or m in methods)))
        for one, specs in works()
        if one.task in tasks and one.seed in seeds
    ]
    return [(one, specs) for one, specs in left if specs]


def main() -> None:
    parser = forked.parser(__doc__)
    parser.add_argument("--rates", type=Path, required=True)
    parser.add_argument("--world", default="sealed-6", help="dev, to try the script out")
    parser.add_argument("--methods", nargs="*", help="only these; None: all of the plan")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="*", help="only these kinds of streams; None: all")
    parser.add_argument("--label", help="of the default in the file: for another version's code")
    options = parser.parse_args()
    OPTIONS.update(vars(options), rates=json.loads(options.rates.read_text()))
    left = _left(options.file, options.tasks, options.seeds, options.methods)
    left = [one for one in left if not options.kinds or one[0].kind in options.kinds]
    forked.run(work, left, options, WORLDS, _world)


if __name__ == "__main__":
    main()
