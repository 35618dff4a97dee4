"""What a state from a file must be, so that it cannot fail at the next answer."""

from __future__ import annotations

import math
from dataclasses import fields
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from queryshift.methods.optimiser import Adapted, Layout
from queryshift.methods.source_like import SourceLike

if TYPE_CHECKING:
    from .state import State

LARGEST_COUNT = 2**53  # counts are powers' exponents too, as floats


def check_state(state: State, fresh: State) -> None:
    """Refuse counts, shapes and types that do not fit a fresh state of the same session."""
    for field in fields(state):
        if type(getattr(fresh, field.name)) is int:
            check_count(getattr(state, field.name), field.name)
    _check_layout(state.layout, fresh.layout)
    _check_guarded(state, fresh)
    _check_adapted(state.adapted, state.layout, fresh.adapted)
    if not isinstance(state.watched, SourceLike):
        raise ValueError("watched are no source-like pairs")
    state.watched.check()


def check_count(value: Any, name: str) -> None:
    """Refuse what is no whole number of at least 0."""
    if type(value) is not int or not 0 <= value < LARGEST_COUNT:
        raise ValueError(f"{name} is {value!r}, no count")


def _check_layout(layout: Layout, fresh: Layout) -> None:
    """Only what the method adapts, each as large as it is; some may be out of a query's reach."""
    for name, shape in layout.shapes.items():
        if fresh.shapes.get(name) != shape:
            raise ValueError(
                f"{name} adapts with shape {shape}, expected {fresh.shapes.get(name, 'no such')}"
            )


def _check_guarded(state: State, fresh: State) -> None:
    """What the doubt of the next batch is told from, and the rate it is learnt at."""
    chances = state.chances
    if not isinstance(chances, Tensor) or chances.dtype != fresh.chances.dtype:
        raise ValueError("the chances of the latest queries are no tensor of their kind")
    if chances.ndim != 1 or not bool(((chances >= 0) & (chances <= 1)).all()):
        raise ValueError("the chances of the latest queries are no numbers between 0 and 1")
    if not isinstance(state.rate, float) or not math.isfinite(state.rate) or state.rate < 0:
        raise ValueError(f"rate is {state.rate!r}, no learning rate")


def _check_adapted(adapted: Adapted, layout: Layout, fresh: Adapted) -> None:
    check_count(adapted.updates, "updates")
    size = sum(map(prod, layout.shapes.values()))
    for name in ("values", "first", "second"):
        vector, expected = getattr(adapted, name), getattr(fresh, name)
        if not isinstance(vector, Tensor) or tuple(vector.shape) != (size,):
            raise ValueError(f"{name} is not a vector of {size} numbers")
        if vector.dtype != expected.dtype:
            raise ValueError(f"{name} is of {vector.dtype}, expected {expected.dtype}")
    if not bool(torch.isfinite(adapted.values).all()):
        raise ValueError("values hold NaN or infinity")
    if bool(adapted.first.isnan().any()) or not bool((adapted.second >= 0).all()):
        raise ValueError("the optimiser's moments hold NaN or negative squares")
