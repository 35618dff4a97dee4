"""What is known of each query: how uncertain a model is about it, and a key that tells repeats."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from .forward import Forward

FIRST = 5
"""Leading gaps: one of them is wide if a query has a clear answer of up to five candidates."""
BEST = 21
"""Number of best scores of a query that are used."""
SURE = 0.7
"""Twice the mean chance up to which the uncertainty is 0; at 1 it is 1."""
LATEST = 64
"""Least number of queries that the uncertainty is averaged over."""
MIXER = 0x9E3779B97F4A7C15 - 2**64  # an odd number whose multiples spread over 64 bits


def chances(best: Tensor) -> Tensor:
    """The probability (B,) that gaps this wide between a query's best scores are chance.

    The gaps between the largest of many random numbers shrink like 1, 1/2, 1/3, ...; multiplied by
    their rank they have equal means. The widest of the first five such products is compared with
    the mean of the others. For queries without any clear answer the probability is 0.5 on average.

    Args:
        best: The best scores (B, k) of each query, best first.

    Returns:
        A number between 0 and 1 for each; the one of half uncertainty for less than seven scores.
    """
    gaps = best[:, :-1] - best[:, 1:]
    if gaps.shape[1] <= FIRST:
        return best.new_full((len(best),), (1 + SURE) / 4)
    alike = gaps * _ranks(gaps.shape[1], gaps.device)
    usual = alike[:, FIRST:].mean(dim=1).clamp(min=torch.finfo(best.dtype).tiny)
    widest = alike[:, :FIRST].amax(dim=1) / usual
    return 1 - (1 - torch.exp(-widest)) ** FIRST


@cache
def _ranks(count: int, device: torch.device) -> Tensor:
    """The numbers from 1 to `count`."""
    with torch.inference_mode(False):
        return torch.arange(1, count + 1, device=device)


@torch.no_grad()
def chances_of(forward: Forward) -> Tensor:
    """The chances (B,) of a forward's queries, computed once.

    In a small gallery only the first part of the scores is used.

    Args:
        forward: The batch.

    Returns:
        As `chances`.
    """
    if "chances" not in forward.cache:
        count = min(BEST, len(forward.gallery) // (FIRST + 1))
        forward.cache["chances"] = chances(forward.at_least(BEST).scores[:, :count])
    kept: Tensor = forward.cache["chances"]
    return kept


def doubt(chance: Tensor) -> Tensor:
    """The uncertainty of queries with these chances (n,).

    Args:
        chance: The chance of each, as `chances` gives it.

    Returns:
        A number between 0 and 1.
    """
    return ((2 * chance.mean() - SURE) / (1 - SURE)).clamp(0, 1)


def no_doubt(device: torch.device) -> Tensor:
    """The chances (LATEST,) of a stream before its first query: no uncertainty."""
    return torch.full((LATEST,), SURE / 2, device=device)


def latest(before: Tensor, batch: Tensor) -> Tensor:
    """What is known of the queries of a batch; of a small one, together with the latest before it.

    Args:
        before: The rows (n, ...) so far, one for each query.
        batch: Those of the batch (B, ...).

    Returns:
        The rows of the batch, and earlier ones up to `LATEST`.
    """
    return torch.cat((before, batch.to(before)))[-max(LATEST, len(batch)) :]


def repeated(keys: Tensor) -> Tensor:
    """Which queries (B,), by their keys, repeat an earlier one."""
    if len(keys) == 1:
        return torch.zeros_like(keys, dtype=torch.bool)
    return (keys[:, None] == keys).tril(-1).any(dim=1)


def query_keys(forward: Forward) -> Tensor:
    """The key (B,) of each query of a forward, computed once."""
    if "keys" not in forward.cache:
        forward.cache["keys"] = keys_of(forward.vectors)
    kept: Tensor = forward.cache["keys"]
    return kept


def keys_of(vectors: Tensor) -> Tensor:
    """A hash (n,) of each vector in half precision; equal vectors have equal hashes."""
    added, factors = _mixers(vectors.shape[1], vectors.device)
    bits: Any = vectors.detach().to(torch.float16).contiguous().view(torch.int16)
    if bits.is_cpu:
        bits = bits.numpy()
    mixed = (bits + added) * MIXER  # wraps around
    return torch.as_tensor(((mixed ^ (mixed >> 29)) * factors).sum(1), device=vectors.device)


@lru_cache(maxsize=16)
def _mixers(width: int, device: torch.device) -> tuple[Any, Any]:
    """What is added to each number of a vector, and what it is multiplied with.

    Arrays of NumPy on the CPU, where they take less time than tensors of few numbers.
    """
    with torch.inference_mode(False):
        places: Any = torch.arange(1, width + 1, device=device)
        places = places.numpy() if places.is_cpu else places
        return places * MIXER, 2 * places + 1
