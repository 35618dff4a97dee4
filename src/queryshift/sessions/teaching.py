"""Which queries of a batch may teach: new ones first of all, and only where they are spread out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from queryshift.galleries import Searchable
from queryshift.methods.losses import distance

CENTRES = 10  # of the gallery: as many as the statistics of a batch look at
REMEMBERED = 192  # latest different queries that others are compared with
SKETCH = 32  # numbers that are remembered of a query: distances stay as they are, nearly


@dataclass(frozen=True)
class Lesson:
    """What of a batch may teach."""

    rows: Tensor  # (B,) which queries; none where they are not spread out
    recent: Tensor  # (n, SKETCH) sketches of the latest queries from now on

    @property
    def whole(self) -> bool:
        """Whether all of the batch may."""
        return bool(self.rows.all())


def no_queries(device: torch.device) -> Tensor:
    """Sketches of the latest queries before the first."""
    return torch.empty(0, SKETCH, dtype=torch.float16, device=device)


@torch.no_grad()
def lesson(
    vectors: Tensor, recent: Tensor, gallery: Searchable, spread: float, repeats: float
) -> Lesson:
    """What of a batch with these unit vectors (B, D), by the source model, may teach.

    A query that repeats an earlier one of the batch never does. Those that repeat one of the latest
    batches do beside new ones, as many as there are of these.

    Args:
        vectors: Unit vectors (B, D).
        recent: Sketches of the latest queries before.
        gallery: The session's gallery.
        spread: Least spread of what teaches, as a share of the gallery's.
        repeats: Distance of queries that are repeats, as a share of the gallery's spread.
    """
    vectors, scale = vectors.detach().float(), _spread(gallery.centroids(CENTRES).float())
    rows = torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    if repeats:
        rows, recent = _without_repeats(vectors, recent, repeats * scale)
    if len(vectors) > 1 and _spread(vectors[rows]) < spread * scale:
        rows = torch.zeros_like(rows)
    return Lesson(rows, recent)


def _without_repeats(vectors: Tensor, recent: Tensor, reach: float) -> tuple[Tensor, Tensor]:
    """Which queries may teach if they are spread out, and what is remembered of them all."""
    sketches = vectors @ _projection(vectors.shape[1], vectors.device)
    copies = (torch.cdist(sketches, sketches) <= reach).tril(-1).any(dim=1)
    near = torch.cdist(sketches, recent.float()) <= reach
    again = near.any(dim=1) & ~copies
    new = ~(again | copies)
    met = torch.cat((recent[~near.any(dim=0)], sketches[~copies].to(recent)))
    return new | (again & (again.cumsum(0) <= new.sum())), met[-REMEMBERED:]


@cache
def _projection(dimension: int, device: torch.device) -> Tensor:
    """A random projection to `SKETCH` dimensions, the same in every process."""
    chance = torch.Generator().manual_seed(0)
    drawn = torch.randn(dimension, SKETCH, generator=chance, device="cpu")
    return (drawn / math.sqrt(SKETCH)).to(device)


def _spread(vectors: Tensor) -> float:
    """Mean distance of vectors (n, D) to their centre; 0 of none."""
    return float(distance(vectors, vectors.mean(dim=0)).mean()) if len(vectors) else 0.0
