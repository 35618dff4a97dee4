"""What half precision changes: embeddings and recall in bfloat16 beside float32, tangram's streams.

    python bench/precision.py [--device cpu|cuda] [--processes 15] [--queries 2000] [--rounds 1]
                              [--streams all|few] [--severities 3 5] [--tasks audio composed]
                              [--first-seed 0]

A round is one more seed. Every stream (a task, a shift, a severity, a seed) is asked in both
precisions, galleries included, of the frozen model and of REST; "points" are recall at 1 in
bfloat16 minus float32, their mean over streams with its standard error. The cosine is between
embeddings of the same queries. Streams with corrupted pictures need OpenCV.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from multiprocessing import get_context
from statistics import mean, stdev
from typing import Any

import torch
from rows import Rows, parser
from torch import Tensor
from torch.nn.functional import cosine_similarity
from towers import add_size, batch_for, encoder_for

from queryshift import Encoder, Gallery, Session, load
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS, Benchmark
from queryshift.lab.evaluation.corrupted_queries import Shifted, corruption_of
from queryshift.lab.evaluation.runner.plans import Plan, Task
from queryshift.lab.evaluation.stream_evaluation import run

FLOOR = "none: the error is what chance leaves of the mean difference"
METHODS = ("frozen", "rest")
PRECISIONS = ("float32", "bfloat16")
BATCH = 64
FEW = ("gaussian_noise", "fog", "ocr", "word_swap", "noise+blur", "noise+weather", "blur+word", "")
COLUMNS = {
    "benchmark": "",
    "number": ",",
    "least cosine": ".6f",
    "mean cosine": ".6f",
    "frozen": ".2f",
    "frozen points": "+.3f",
    "frozen error": ".3f",
    "rest": ".2f",
    "rest points": "+.3f",
    "rest error": ".3f",
}


@dataclass(frozen=True)
class Stream:
    """One shifted stream of a benchmark, and what it is to run on."""

    benchmark: str
    task: Task
    device: str
    queries: int

    @property
    def row(self) -> Benchmark:
        return BENCHMARKS[self.benchmark]

    @property
    def world(self) -> tuple[str, str]:
        """Task and look, which make the dataset."""
        return self.benchmark.rsplit("-", 1)[1], self.row.part or "plain"


@dataclass(frozen=True)
class Found:
    """Recall at 1 by method and precision, and the cosines of the embeddings."""

    stream: Stream
    recall: dict[tuple[str, str], float]
    least: float
    middle: float

    def points(self, method: str) -> float:
        return self.recall[method, "bfloat16"] - self.recall[method, "float32"]


def streams(asked: argparse.Namespace) -> Iterator[Stream]:
    """All streams that can be made here."""
    pictures = find_spec("cv2") is not None
    for name, row in BENCHMARKS.items():
        drawn = any(part in row.query for part in ("image", "video"))
        wanted = row.dataset == "tangram" and name.rsplit("-", 1)[1] in asked.tasks
        if not wanted or (row.corrupted and drawn and not pictures):
            continue
        severities = tuple(asked.severities) if row.corrupted else ()
        seeds = tuple(range(asked.first_seed, asked.first_seed + asked.rounds))
        plan = Plan(row=row, methods=("frozen",), seeds=seeds, severities=severities)
        for task in plan.tasks():
            if asked.streams == "all" or task.shift in FEW:
                yield Stream(name, task, asked.device, asked.queries)


def compare(stream: Stream) -> Found:
    """One stream in both precisions."""
    row, task, dataset = stream.row, stream.task, data(*stream.world)
    dataset = dataset.asking(range(len(dataset))[: stream.queries])
    queries = list(Shifted(dataset, corruption_of(row, task.shift), task.severity, task.seed))
    recall = {}
    for precision in PRECISIONS:
        encoder = encoders(row.model, precision, stream.device)[row.query]
        gallery = embedded(stream.world, row.model, precision, stream.device)
        for method in METHODS:
            session = Session(encoder, gallery, method_of(method, row), seed=task.seed, guard=None)
            done = run(session, queries, dataset.matches, task.seed, row.batch)
            recall[method, precision] = done.recall(1)
    alike = cosines(*(vectors(row, one, stream.device, queries) for one in PRECISIONS))
    return Found(stream, recall, float(alike.min()), float(alike.mean()))


def alone() -> None:
    """One thread in each process, whatever it calls."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    if find_spec("cv2") is not None:
        import cv2

        cv2.setNumThreads(1)


def vectors(row: Benchmark, precision: str, device: str, queries: list[Any]) -> Tensor:
    encoder = encoders(row.model, precision, device)[row.query]
    starts = range(0, len(queries), row.batch)
    return torch.cat([encoder.encode(queries[start : start + row.batch]) for start in starts])


def cosines(one: Tensor, other: Tensor) -> Tensor:
    return cosine_similarity(one.double(), other.double(), dim=1)


@cache
def data(task: str, look: str) -> Dataset:
    return tangram(task, look=look)


@cache
def encoders(model: str, precision: str, device: str) -> dict[str, Encoder]:
    return load(model, precision=precision, device=device)


@cache
def embedded(world: tuple[str, str], model: str, precision: str, device: str) -> Gallery:
    """Kept for the benchmarks that ask the same world."""
    dataset = data(*world)
    encoder = encoders(model, precision, device)[dataset.gallery]
    return Gallery.build(encoder, dataset.candidates, batch_size=256)


def summary(name: str, found: list[Found]) -> dict[str, Any]:
    """A row of the table: means over streams, and the standard errors of the differences."""
    row: dict[str, Any] = {
        "benchmark": name,
        "number": len(found),
        "least cosine": min(one.least for one in found),
        "mean cosine": mean(one.middle for one in found),
    }
    for method in METHODS:
        points = [one.points(method) for one in found]
        row[method] = mean(one.recall[method, "float32"] for one in found)
        row[f"{method} points"] = mean(points)
        row[f"{method} error"] = stdev(points) / len(points) ** 0.5 if len(points) > 1 else None
    return row


def full_size(asked: argparse.Namespace, tower: str) -> dict[str, Any]:
    """The cosines of a full-size tower with random weights."""
    size = {"device": asked.device, "side": asked.side, "depth": asked.depth}
    found = []
    for precision in PRECISIONS:
        one = argparse.Namespace(
            tower=tower, precision=precision, compile=False, graphs=False, **size
        )
        found.append(encoder_for(one).encode(batch_for(one, BATCH)))
    alike = cosines(*found)
    least, middle = float(alike.min()), float(alike.mean())
    return {"benchmark": f"{tower}, random weights", "least cosine": least, "mean cosine": middle}


def options() -> argparse.Namespace:
    asking = parser(__doc__, rounds=1)
    add_size(asking, side=384)
    asking.add_argument("--processes", type=int, default=1)
    asking.add_argument("--queries", type=int, default=2000)
    asking.add_argument("--first-seed", type=int, default=0, help="that of the first round")
    asking.add_argument("--streams", default="few", choices=("few", "all"))
    asking.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    asking.add_argument("--severities", type=int, nargs="*", default=[3, 5])
    return asking.parse_args()


def main() -> None:
    asked = options()
    rows, every = Rows(asked, FLOOR, COLUMNS), []
    with ProcessPoolExecutor(asked.processes, get_context("spawn"), alone) as pool:
        compared = pool.map(compare, streams(asked))
        for name, found in groupby(compared, lambda one: one.stream.benchmark):
            here = list(found)
            every += here
            rows.add(summary(name, here))
    if every:
        rows.add(summary("all", every))
    for tower in ("vit", "blip", "blip-text"):
        rows.add(full_size(asked, tower))


if __name__ == "__main__":
    main()
