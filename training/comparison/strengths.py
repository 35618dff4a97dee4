"""How strong a shift of the development world leaves the source model half of its recall.

python -m training.comparison.strengths
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from queryshift import Frozen, Gallery, Session
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.models import load

from .dev_shifts import STRENGTHS, of_strength

QUERIES, STEPS = 1000, 8


class Source:
    """A task's model that does not adapt, and its first queries of the development world."""

    def __init__(self, task: str) -> None:
        name, query, other = TASKS[task]
        model, world = load(name), tangram(task, "dev")
        gallery = Gallery.build(model[other], world.candidates, batch_size=500)
        self.session = Session(model[query], gallery, Frozen())
        self.task, self.asked = task, world.asking(range(QUERIES))
        self.clean = self.recall(self.asked.queries)

    def recall(self, queries: Sequence[Any]) -> float:
        return run(self.session, queries, self.asked.matches).recall()

    def left(self, number: int, strength: float) -> float:
        """Recall at 1 under one of the task's shifts."""
        return self.recall(shifted(self.asked, of_strength(self.task, number, strength)))

    def halving(self, number: int) -> float:
        """The strength between 0 and 1 that leaves half, by bisection."""
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            enough = self.left(number, middle) > self.clean / 2
            low, high = (middle, high) if enough else (low, middle)
        return round((low + high) / 2, 3)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'task':9} {'shift':24} {'clean':>6} {'strength':>9} {'recall':>7}")
    for task, kept in STRENGTHS.items():
        source = Source(task)
        for number in range(len(kept)):
            strength = source.halving(number)
            name, left = of_strength(task, number, strength).__name__, source.left(number, strength)
            print(f"{task:9} {name:24} {source.clean:6.1f} {strength:9.3f} {left:7.1f}", flush=True)


if __name__ == "__main__":
    main()
