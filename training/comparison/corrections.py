"""Corrections for hubs that others have published, each with the stream's own queries as its bank.

Rows of a comparison, not part of the product. `scores` (B, N) are a batch's similarities, `bank`
(n, N) those of the latest queries, the batch included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from queryshift.galleries import Gallery
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.retrieval.hubness.query_bank import QueryBank

BANK = 1024
Correction = Callable[[Tensor, Tensor], Tensor]


def inverted_softmax(strength: float) -> Correction:
    """Each candidate set back by the log of the bank's mass at it (Smith et al., ICLR 2017)."""
    return lambda scores, bank: scores - strength * _mass(bank)


def dynamic_inverted_softmax(scores: Tensor, bank: Tensor) -> Tensor:
    """Inverted softmax for queries whose top-1 result is a hub (Bogolin et al., CVPR 2022)."""
    hubs = torch.zeros(bank.shape[1], dtype=torch.bool, device=bank.device)
    hubs[bank.argmax(dim=1)] = True
    return torch.where(hubs[scores.argmax(dim=1)][:, None], scores - _mass(bank), scores)


def csls(scores: Tensor, bank: Tensor, nearest: int = 10) -> Tensor:
    """2 cos less the mean of a candidate's nearest queries (Lample et al., ICLR 2018)."""
    return 2 * scores - _nearest_mean(bank, nearest)


def nearest_neighbour_normalisation(
    scores: Tensor, bank: Tensor, nearest: int = 16, weight: float = 0.75
) -> Tensor:
    """Less a share of the mean of a candidate's nearest queries (Chowdhury et al., EMNLP 2024)."""
    return scores - weight * _nearest_mean(bank, nearest)


def distribution_normalisation(scores: Tensor, bank: Tensor, weight: float = 0.5) -> Tensor:
    """Less half of the similarity to the mean query (Zhou et al., NeurIPS 2023)."""
    return scores - weight * bank.mean(dim=0)


def sinkhorn(scores: Tensor, bank: Tensor, rounds: int = 10) -> Tensor:
    """Bank and candidates balanced in turns (Pan et al., ACM MM 2025)."""
    beta = bank.std() / 2
    columns = torch.zeros(bank.shape[1], device=bank.device)
    for _ in range(rounds):
        rows = torch.logsumexp(bank / beta - columns, dim=1, keepdim=True)
        columns = torch.logsumexp(bank / beta - rows, dim=0)
    return scores - beta * columns


PUBLISHED: dict[str, Correction] = {
    "strength 0.5": inverted_softmax(0.5),
    "strength 1": inverted_softmax(1.0),
    "dynamic inverted softmax": dynamic_inverted_softmax,
    "CSLS": csls,
    "nearest neighbour normalisation": nearest_neighbour_normalisation,
    "distribution normalisation": distribution_normalisation,
    "Sinkhorn": sinkhorn,
}


def firsts_by(correction: Correction, parts: list[Tensor], gallery: Gallery) -> Tensor:
    """Top-1 results (Q,) of a stream's query vectors, corrected batch by batch."""
    candidates = gallery.vectors[:, 0].to(parts[0])
    found = [
        correction(bank[-count:], bank).argmax(dim=1) for count, bank in _banks(parts, candidates)
    ]
    return torch.cat(found)


def firsts_by_hubs(parts: list[Tensor], gallery: Gallery) -> Tensor:
    """Top-1 results (Q,) by the library's own correction, as a session makes it."""
    hubs, found = Hubs(), []
    memory = QueryBank.empty(gallery.dimension, parts[0].device)
    for vectors in parts:
        forward = Forward(vectors, gallery)
        memory = hubs.observe(forward, memory)
        found.append(hubs.rank(forward, forward, memory).hits(1).positions[:, 0])
    return torch.cat(found)


def _banks(parts: list[Tensor], candidates: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The size of each batch, and the similarities of the latest queries up to its last."""
    bank = parts[0][:0]
    for vectors in parts:
        bank = torch.cat((bank, vectors))[-BANK:]
        yield len(vectors), bank @ candidates.T


def _mass(bank: Tensor) -> Tensor:
    beta = bank.std() / 2
    return beta * torch.logsumexp(bank / beta, dim=0)


def _nearest_mean(bank: Tensor, nearest: int) -> Tensor:
    return bank.topk(min(nearest, len(bank)), dim=0).values.mean(dim=0)
