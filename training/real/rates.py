"""Learning rates of published methods, from their recall@1 on AWS's development streams."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.results import Cell

SERIES = "aws-dev"
STREAMS = ("clean", "chatty", "typos-2")
BEST = ":lr=dev"  # after a method: the rate that was best on the development streams
TRIED = (1e-3, 3e-3, 3e-4, 1e-2, 1e-4)  # the likely ones first
RATE = re.compile(r":lr=([0-9.e-]+)")


def row_of(cell: Cell) -> str:
    """A method without its rate."""
    return RATE.sub("", cell.method)


def means(cells: Iterable[Cell]) -> dict[tuple[str, str], dict[float, float]]:
    """Mean recall@1 over the development streams, by model and method, then by rate."""
    found: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        rate = RATE.search(cell.method)
        if rate and BENCHMARKS[cell.benchmark].series == SERIES:
            found[cell.model, row_of(cell)][float(rate[1])].append(cell.measure("recall@1"))
    return {
        key: {rate: float(np.mean(own[rate])) for rate in sorted(own)} for key, own in found.items()
    }


def best(method: str, model: str, by_rate: Mapping[tuple[str, str], Mapping[float, float]]) -> str:
    """The method; "rest:lr=dev" with the rate that was best on the development streams."""
    if not method.endswith(BEST):
        return method
    row = method.removesuffix(BEST)
    own = by_rate[model, row]
    return f"{row}:lr={max(own, key=lambda rate: own[rate]):g}"


def tried(methods: Iterable[str]) -> list[str]:
    """The methods that end in ":lr=dev", at every rate."""
    rows = [method.removesuffix(BEST) for method in methods if method.endswith(BEST)]
    return [f"{row}:lr={rate:g}" for rate in TRIED for row in rows]
