"""AdamW and plain gradient descent over one flat vector, as pure functions.

Written here because torch's own costs over a second of imports; tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Params

Optimiser = Literal["adamw", "sgd"]
BETAS, EPSILON = (0.9, 0.999), 1e-8


def flat_vector(params: Params, names: Iterable[str]) -> Tensor:
    """The named tensors as one new vector: a handful of kernels, not one for each."""
    parts = [params[name].reshape(-1) for name in names]
    return torch.cat(parts) if parts else torch.empty(0, device="cpu")


@dataclass(frozen=True)
class Layout:
    """Which tensors lie where in a flat vector."""

    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, params: Params) -> Self:
        """The layout of these tensors."""
        return cls({name: tuple(value.shape) for name, value in params.items()})

    def flat(self, params: Params) -> Tensor:
        """The tensors as one new vector."""
        return flat_vector(params, self.shapes)

    def split(self, vector: Tensor) -> Params:
        """Views of one vector as tensors; of many (B, P), as tensors with B in front."""
        parts = torch.split(vector, [prod(shape) for shape in self.shapes.values()], dim=-1)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.view(*vector.shape[:-1], *shape) for (name, shape), part in named}


@dataclass(frozen=True)
class Adapted:
    """Parameters and the optimiser's two moments, as flat vectors: the state of an adaptation."""

    values: Tensor
    first: Tensor
    second: Tensor
    updates: int = 0

    @classmethod
    def fresh(cls, values: Tensor) -> Self:
        """The state before any update."""
        return cls(values, torch.zeros_like(values), torch.zeros_like(values))

    def updated(
        self, optimiser: Optimiser, gradient: Tensor, lr: float | Tensor, weight_decay: float
    ) -> Self:
        """The state after one update with decoupled weight decay.

        With "sgd" it is one plain step, for which Theorem 2 holds exactly.
        """
        updates, decayed = self.updates + 1, self.values * (1 - lr * weight_decay)
        if optimiser == "sgd":
            return replace(self, values=decayed - lr * gradient, updates=updates)
        slow, slower = BETAS
        first = torch.lerp(self.first, gradient, 1 - slow)
        second = self.second * slower + gradient.square() * (1 - slower)
        spread = second.sqrt() / (1 - slower**updates) ** 0.5 + EPSILON
        values = decayed - lr / (1 - slow**updates) * (first / spread)
        return replace(self, values=values, first=first, second=second, updates=updates)
