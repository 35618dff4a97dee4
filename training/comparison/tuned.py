"""How well `tune` chooses without labels, on the shifts of the development world.

python -m training.comparison.tuned FILE --tasks image text --methods rest tent
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

import queryshift as qs
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.evaluation.stream_evaluation import shifted
from queryshift.lab.tuning.grid_search import Trial, Tuned, chosen, tune
from queryshift.models import load

from .dev_shifts import DEV, dev_shift

RATES, TEMPERATURES = (1e-3, 1e-2, 3e-2, 1e-1), (0.02, 0.05)
QUERIES = 256


def lines(task: str, methods: list[str]) -> Iterator[dict[str, Any]]:
    """Every shift of one task, with every method."""
    name, query, other = TASKS[task]
    model, world = load(name), tangram(task, "dev", QUERIES)
    gallery = qs.Gallery.build(model[other], world.candidates, batch_size=500)
    for method, shift in product(methods, range(len(DEV[task]))):
        asked = shifted(world, dev_shift(task, str(shift)))
        found = tune(
            model[query],
            gallery,
            asked,
            qs.METHODS[method](),
            rates=RATES,
            temperatures=TEMPERATURES,
            matches=world.matches,
        )
        blind = chosen(unlabelled(found.source), [unlabelled(one) for one in found.trials])
        yield {
            "task": task,
            "shift": DEV[task][shift].__name__,
            "blind": point(blind),
            **about(found),
        }


def about(found: Tuned) -> dict[str, Any]:
    kept = found.as_dict()
    return {name: kept[name] for name in ("method", "source", "trials", "best")}


def unlabelled(trial: Trial) -> Trial:
    """The same without recall: what `tune` sees where there are no labels."""
    return replace(trial, recall=None)


def point(trial: Trial | None) -> tuple[float, float] | None:
    return None if trial is None else (trial.lr, trial.temperature)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tasks", nargs="*", default=["image", "text"])
    parser.add_argument("--methods", nargs="*", default=["rest", "tent"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.file.open("a") as file:
        for task in options.tasks:
            for line in lines(task, options.methods):
                file.write(json.dumps(line) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
