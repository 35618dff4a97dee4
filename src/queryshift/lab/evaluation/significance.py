"""Is one method better than another? A paired bootstrap over queries and seeds, with Holm's rule.

A resample draws queries and seeds with replacement, the same for every method; a difference that
keeps its sign in nearly all resamples is one that other queries and seeds would show too.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from queryshift.support.progress import track

Floats = NDArray[np.float64]

RESAMPLES = 10_000
_DRAWN_AT_ONCE = 2**22  # numbers of draws of queries kept in memory


def draw_seeds(seeds: int, resamples: int, rng: Generator) -> Floats:
    """How much each seed counts in each resample (B, S); a row adds up to 1."""
    return rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds


def resampled_means(scores: Floats, seed_weights: Floats, rng: Generator) -> Floats:
    """Means (B, ...) of scores (..., S, Q), over weighted seeds and resampled queries."""
    *outer, seeds, queries = scores.shape
    by_query = np.ascontiguousarray(scores.reshape(-1, queries).T)  # (Q, M * S)
    step = max(1, _DRAWN_AT_ONCE // queries)
    some = np.array_split(seed_weights, -(-len(seed_weights) // step))
    parts = [_drawn(queries, len(weights), rng) @ by_query for weights in track(some, "resampling")]
    means = np.concatenate(parts).reshape(len(seed_weights), *outer, seeds)
    return np.asarray(np.einsum("b...s,bs->b...", means, seed_weights))


def p_values(differences: Floats) -> Floats:
    """Two-sided p (...,) of resampled differences (B, ...); never below 2 / (B + 1)."""
    total = len(differences) + 1
    differences = np.round(differences, 9)  # sums in another order are no difference
    fewer = np.minimum((differences <= 0).sum(axis=0), (differences >= 0).sum(axis=0))
    return np.asarray(np.minimum(2 * (fewer + 1) / total, 1.0))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p-values of one family: reject those at or below the level."""
    flat = p.ravel()
    order = np.argsort(flat, kind="stable")
    stepped = np.maximum.accumulate(flat[order] * np.arange(flat.size, 0, -1))
    adjusted = np.empty_like(flat)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.reshape(p.shape)


def _drawn(queries: int, resamples: int, rng: Generator) -> Floats:
    """How much each query counts in each resample (b, Q); a row adds up to 1."""
    drawn = rng.integers(queries, size=(resamples, queries))
    drawn += np.arange(resamples)[:, None] * queries
    counts = np.bincount(drawn.ravel(), minlength=resamples * queries)
    return counts.reshape(resamples, queries) / queries
