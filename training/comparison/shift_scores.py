"""Shift scores of batches under a guard with reference queries, on the development world.

python -m training.comparison.shift_scores
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from statistics import median

import torch

from queryshift import Frozen, Gallery, Guard, ReferenceQueries, Session
from queryshift.lab.corruptions import Corruption
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.models import load

from .dev_shifts import DEV, STRENGTHS, of_strength

REFERENCE = 512  # queries that a guard has seen
QUERIES, BATCH = 640, 64
SHARES = (1.0, 0.5, 0.25)


def kinds(task: str) -> Iterator[tuple[str, float, Corruption | None]]:
    """Clean queries, then each shift at shares of its strength."""
    yield "clean", 0.0, None
    for number, share in product(range(len(DEV[task])), SHARES):
        shift = of_strength(task, number, share * STRENGTHS[task][number])
        yield shift.__name__, share, shift


def lines(task: str) -> Iterator[str]:
    """Recall and shift score of each kind of batch."""
    name, query, other = TASKS[task]
    model, world = load(name), tangram(task, "dev")
    gallery = Gallery.build(model[other], world.candidates, batch_size=500)
    guard = Guard(reference=ReferenceQueries.of(model[query], gallery, world.queries[:REFERENCE]))
    asked = world.asking(range(REFERENCE, REFERENCE + QUERIES))
    for label, share, shift in kinds(task):
        session = Session(model[query], gallery, Frozen(), guard=guard)
        recall = run(session, shifted(asked, shift), asked.matches, batch_size=BATCH).recall()
        scores = [one.shift_score for one in session.history if one.shift_score is not None]
        far = (f"{one(scores):7.1f}" for one in (min, median, max))
        yield f"{task:9} {label:24} {share:8.2f} {recall:7.1f} {' '.join(far)}"


def main() -> None:
    torch.set_num_threads(1)
    numbers = f"{'strength':>8} {'recall':>7} {'least':>7} {'median':>7} {'most':>7}"
    print(f"{'task':9} {'shift':24} {numbers}")
    for task in TASKS:
        for line in lines(task):
            print(line, flush=True)


if __name__ == "__main__":
    main()
