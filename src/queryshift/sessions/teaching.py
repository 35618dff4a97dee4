"""Which queries of a batch may teach: new ones first of all, and only where they are spread out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from queryshift.methods.losses import distance
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.pool import Pool

from .guard import Guard, lead

CENTRES = 10  # of the gallery: as many as the statistics of a batch look at
REMEMBERED = 192  # latest different queries that others are compared with
SKETCH = 32  # numbers that are remembered of a query: distances stay as they are, nearly


@dataclass(frozen=True)
class Lesson:
    """What of a batch may teach, and how sure the source is of the batch."""

    rows: Tensor | None  # (B,) which queries, on the CPU: not all of them; None: all
    queries: int  # how many: none where they are not spread out
    recent: Tensor  # (n, SKETCH) sketches of the latest queries from now on
    lead: float | None  # of the first hit over the tenth, by the source; None: not looked for


def no_queries(device: torch.device) -> Tensor:
    """Sketches of the latest queries before the first."""
    return torch.empty(0, SKETCH, dtype=torch.float16, device=device)


@torch.no_grad()
def lesson(source: Forward, recent: Tensor, guard: Guard) -> Lesson:
    """What of a batch may teach; one wait for the GPU.

    A query that repeats an earlier one of the batch never does. Those that repeat one of the latest
    batches do beside new ones, as many as there are of these.

    Args:
        source: The batch, seen by the source model.
        recent: Sketches of the latest queries before.
        guard: How far repeats lie apart, and how far spread out queries must be.
    """
    vectors = source.vectors.detach().float()
    scale = _spread(source.gallery.centroids(CENTRES).to(vectors))
    sketches = vectors @ _projection(vectors.shape[1], vectors.device)
    reach = guard.repeats * scale
    copies = (torch.cdist(sketches, sketches) <= reach).tril(-1).any(dim=1) & (reach > 0)
    met = (torch.cdist(sketches, recent.float()) <= reach) & (reach > 0)
    rows = _first_of_all_new(copies, met.any(dim=1))
    if len(vectors) > 1:
        rows = rows & (_spread(vectors, rows) >= guard.spread * scale)
    remote = isinstance(source.gallery, Pool)  # not asked for the hits of what teaches nothing
    own_lead = torch.zeros(1) if remote else lead(source)[None].float()
    parts = (own_lead, rows, ~copies, ~met.any(dim=0))
    lead_of_source, *said = torch.cat([part.to(vectors) for part in parts]).tolist()  # one wait
    size = len(vectors)
    taught, first, old = said[:size], said[size : 2 * size], said[2 * size :]
    places = [place for place, kept in enumerate((*old, *first)) if kept][-REMEMBERED:]
    both = torch.cat((recent, sketches.to(recent)))
    latest = both[torch.tensor(places, dtype=torch.long, device=both.device)]
    some = None if all(taught) else torch.tensor(taught, device="cpu") > 0
    kept = latest if guard.repeats else recent
    return Lesson(some, round(sum(taught)), kept, None if remote else lead_of_source)


def _first_of_all_new(copies: Tensor, met: Tensor) -> Tensor:
    """Which queries may teach if they are spread out: all new ones, and as many met before."""
    again = met & ~copies
    new = ~(again | copies)
    return new | (again & (again.cumsum(0) <= new.sum()))


@cache
def _projection(dimension: int, device: torch.device) -> Tensor:
    """A random projection to `SKETCH` dimensions, the same in every process."""
    chance = torch.Generator().manual_seed(0)
    drawn = torch.randn(dimension, SKETCH, generator=chance, device="cpu")
    return (drawn / math.sqrt(SKETCH)).to(device)


def _spread(vectors: Tensor, rows: Tensor | None = None) -> Tensor:
    """Mean distance of vectors (n, D), or of some rows of them, to their centre; 0 of none."""
    weights = torch.ones_like(vectors[:, 0]) if rows is None else rows.to(vectors)
    weights = weights / weights.sum().clamp(min=1)
    return (weights * distance(vectors, weights @ vectors)).sum()
