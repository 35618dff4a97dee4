"""Spherical k-means: the representative negatives of Eq. 4."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

SAMPLE = 50_000
ITERATIONS = 30


class Candidates(Protocol):
    """A tensor (N, V, D), or an object with the same indexing."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: Tensor) -> Tensor: ...


def spherical_kmeans(candidates: Candidates, count: int, seed: int = 0) -> Tensor:
    """Return unit centres (min(count, N), D) of the mean vectors of candidates (N, V, D).

    The same seed gives the same centres. At most `SAMPLE` candidates are used, drawn at random.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.arange(len(candidates), device="cpu")
    if len(candidates) > SAMPLE:
        drawn = torch.randperm(len(candidates), generator=generator, device="cpu")[:SAMPLE]
        chosen = drawn.sort().values
    sample = candidates[chosen]
    wide = torch.promote_types(sample.dtype, torch.float32)
    vectors = normalize(sample.to(wide).mean(dim=1), dim=1)
    count = min(count, len(vectors))
    centres = _spread(vectors, count, generator)
    for _ in range(ITERATIONS):
        nearest, owner = (vectors @ centres.T).max(dim=1)
        moved = torch.zeros_like(centres).index_add_(0, owner, vectors)
        empty = torch.bincount(owner, minlength=count) == 0
        if bool(empty.any()):  # start an empty cluster again at the worst-served vectors
            worst = nearest.argsort()[: int(empty.sum())]
            moved[empty] = vectors[worst]
        moved = normalize(moved, dim=1)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def _spread(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw first centres by k-means++: the further from those before, the likelier."""
    chosen = [int(torch.randint(len(vectors), (1,), generator=generator, device="cpu"))]
    distance = 1 - vectors @ vectors[chosen[0]]
    for _ in range(count - 1):
        weights = distance.clamp(min=0).double().cpu() + 1e-12
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
        distance = torch.minimum(distance, 1 - vectors @ vectors[chosen[-1]])
    return vectors[chosen].clone()
