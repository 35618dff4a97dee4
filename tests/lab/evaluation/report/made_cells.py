"""Finished cells without a run: ranks with a wished recall at 1."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from queryshift.lab.evaluation.results import Cell


def ranks_with(recall: float, queries: int = 200, seed: int = 0) -> np.ndarray:
    """Ranks of which `recall` percent are 1, the same queries being easy in every call."""
    easy = np.random.default_rng(7).permutation(queries)
    others = np.random.default_rng(seed).integers(2, 90, queries)
    return np.where(easy < round(recall / 100 * queries), 1, others)


def cell(method: str = "frozen", shift: str = "fog", recall: float = 50.0, **more: Any) -> Cell:
    seed, queries = more.pop("seed", 0), more.pop("queries", 200)
    fields = {
        "benchmark": "coco-o-image",
        "severity": 5,
        "protocol": "online",
        "candidates": 1000,
        "versions": {"queryshift": "0.1.0"},
        "device": "cpu",
        "ranks": ranks_with(recall, queries, seed),
    } | more
    return Cell(method=method, shift=shift, seed=seed, **fields)


def table_of(
    recalls: dict[str, Iterable[float]], shifts: Iterable[str] = ("fog", "jpeg"), **more: Any
) -> list[Cell]:
    """A cell per method and shift, with these recalls."""
    return [
        cell(method, shift, recall, **more)
        for method, row in recalls.items()
        for shift, recall in zip(shifts, row, strict=True)
    ]
