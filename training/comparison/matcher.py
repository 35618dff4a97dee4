"""REST with and without the matcher's loss on tangram, every answer reranked by the matcher.

python -m training.comparison.matcher FILE --queries 320 --seeds 0 1
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

import queryshift as qs
from queryshift.encoders.matcher import Matching
from queryshift.lab.corruptions import find
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.models import load, matcher

SHIFTS = {
    "image": ("gaussian_noise", "defocus_blur"),
    "text": ("ocr", "character_delete"),
}
SETTINGS = {  # what the grid on the development world chose for REST without a matcher
    "image": {"lr": 3e-3, "temperature": 0.05},
    "text": {"lr": 3e-3, "temperature": 0.02},
}
SEVERITY = 3


def methods(task: str, rate: float | None) -> Iterator[qs.Method]:
    """Nothing, REST that mines with the cosine, REST that mines with the matcher."""
    yield qs.Frozen()
    given = {**SETTINGS[task], **({"lr": rate} if rate else {})}
    for mine_with in ("cosine", "matcher"):
        yield qs.REST(**given, mine_with=mine_with)


def lines(task: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Recall of every method under every shift of one task."""
    name, query, other = TASKS[task]
    model, world = load(name), tangram(task, "test", options.queries)
    gallery = qs.Gallery.build(model[other], world.candidates, batch_size=500)
    judge: Matching = matcher(model, query).over(world.candidates, batch_size=500)
    for seed, shift in product(options.seeds, SHIFTS[task]):
        asked = shifted(world, find(query, shift), SEVERITY, seed)
        for method in methods(task, options.lr):
            session = qs.Session(
                model[query], gallery, method, matcher=judge, seed=seed, guard=None
            )
            yield {
                "task": task,
                "shift": shift,
                "seed": seed,
                "method": method.name,
                "mine_with": getattr(method, "mine_with", None),
                "lr": session.method.lr if method.adapting else None,
                "recall": round(run(session, asked, world.matches, seed).recall(), 2),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--queries", type=int, default=320)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--tasks", nargs="*", default=["image", "text"])
    parser.add_argument("--lr", type=float, help="instead of the recommended learning rates")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.file.open("a") as file:
        for task in options.tasks:
            for line in lines(task, options):
                file.write(json.dumps(line) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
