"""Variants of the default session on the development world, stream by stream.

python -m training.comparison.development FILE --variants default spread=0.0 part=2.0,rate=2
python -m training.comparison.development FILE --without-rules

A variant names settings of the guard, of InfoMax, of hub correction, of the session, or constants
of the policy; `--without-rules` are those of `without_rules.py`, each without one rule. Each
finished stream and variant is a line of FILE; the same command goes on where it stopped. Shifts and
scenes are the development world's, by which choices are made; `--world` asks another split, to
check what was chosen. Use one FILE for each world and size of batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

import torch

from queryshift import Gallery
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.models import load

from . import forked, variants, without_rules
from .sealed import _by_content as by_content
from .sealed_streams import DEVELOPMENT, QUERIES, Stream, items, phases, rows

WHOLE = ("sorted", "noise")  # streams of several phases are not cut
PICTURES = ("image", "video")
WORLDS: dict[str, tuple[Dataset, Any]] = {}  # filled before the workers are forked
OPTIONS: dict[str, Any] = {}
Work = tuple[Stream, tuple[str, ...]]


def streams(seed: int) -> Iterator[Stream]:
    """All streams of one seed: shifts of several strengths, popular scenes, mixtures, noise."""
    for task in TASKS:
        noisy = "3" if task in PICTURES else "2"
        online = ["0", "1*1.6", "2*1.3", *(["3"] if task in PICTURES else [])]
        kinds = [("online", name) for name in online]
        kinds += [(kind, noisy) for kind in ("zipf", "few", "half", "tenth")]
        kinds.append(("sorted", "0*1.5"))
        for kind, name in kinds:
            yield Stream(kind, task, DEVELOPMENT + name, 3, seed)
        for kind in ("clean", "noise"):
            yield Stream(kind, task, "clean", 3, seed)


@cache
def _answering(task: str) -> tuple[Any, Gallery]:
    name, query, gallery = TASKS[task]
    model = load(name, device=OPTIONS["device"], precision="float32")
    built = Gallery.build(model[gallery], WORLDS[task][0].candidates, batch_size=500)
    return model[query], built.to(OPTIONS["device"])


def work(one: Work) -> list[dict[str, Any]]:
    """The lines of one stream."""
    torch.set_num_threads(1)
    stream, named = one
    world, captions = WORLDS[stream.task]
    asked, matches = items(stream, world, captions)
    told = phases(stream)
    if stream.kind == "sorted":
        order = by_content(matches[:QUERIES], _answering(stream.task)[1])
        order += range(QUERIES, len(asked))
        asked, matches = [asked[row] for row in order], [matches[row] for row in order]
    elif stream.kind in ("half", "tenth"):
        told = ["clean" if row[2] is None else "shifted" for row in rows(stream)]
    if stream.kind not in WHOLE:
        asked, matches = asked[: OPTIONS["queries"]], matches[: OPTIONS["queries"]]
    found = []
    for variant in named:
        started = time.perf_counter()
        firsts, about = _firsts(stream, variant, asked)
        right: dict[str, list[bool]] = {}
        for place, own, phase in zip(firsts, matches, told[: len(asked)], strict=True):
            if own:
                right.setdefault(phase, []).append(place in own)
        recalls = {phase: round(100 * sum(r) / len(r), 2) for phase, r in right.items()}
        seconds = round(time.perf_counter() - started, 2)
        line = {**asdict(stream), "variant": OPTIONS["label"] or variant, "recall": recalls}
        found.append({**line, "seconds": seconds, **about})
    return found


def _firsts(stream: Stream, variant: str, asked: list[Any]) -> tuple[list[int], dict[str, Any]]:
    with variants.session_of(variant, *_answering(stream.task)) as session:
        size = OPTIONS["batch"] or BENCHMARKS[f"tangram-o-{stream.task}"].batch
        firsts: list[int] = []
        for start in range(0, len(asked), size):
            answer = session.answer(asked[start : start + size])
            firsts += answer.top(1).positions[:, 0].tolist()
        about = {"resets": session.state.resets, "updates": session.state.adapted.updates}
        return firsts, about


def _world(task: str) -> tuple[Dataset, Any]:
    world = OPTIONS["world"]
    captions = tangram("image", world).candidates if task == "text" else None
    return tangram(task, world), captions


def _left(options: argparse.Namespace) -> list[Work]:
    done = {(Stream.of(line), line["variant"]) for line in forked.finished(options.file)}
    left = [
        (one, tuple(v for v in options.variants if (one, options.label or v) not in done))
        for seed in options.seeds
        for one in streams(seed)
        if one.task in options.tasks and (not options.kinds or one.kind in options.kinds)
    ]
    return [(one, named) for one, named in left if named]


def main() -> None:
    parser = forked.parser(__doc__)
    parser.add_argument("--world", default="dev", help="another split, to check what was chosen")
    parser.add_argument("--variants", nargs="*", default=["default"])
    parser.add_argument("--without-rules", action="store_true", help="the default, then each")
    parser.add_argument("--label", help="of the variant in the file: for another version's code")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--queries", type=int, default=768)
    parser.add_argument("--batch", type=int, help="queries at a time; None: the benchmark's")
    options = parser.parse_args()
    if options.without_rules:
        options.variants = ["default", *without_rules.NAMES]
    OPTIONS.update(vars(options))
    forked.run(work, _left(options), options, WORLDS, _world)


if __name__ == "__main__":
    main()
