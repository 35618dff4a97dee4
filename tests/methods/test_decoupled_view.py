"""Decoupling a method that ranks by vectors of its own: drift is measured on those."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import TSA, Decoupled, Gallery, Session
from toy import ToyEncoder, toy_gallery, toy_queries

CANDIDATES, SIZE, NEIGHBOURS, TEMPERATURE = 40, 12, 3, 0.1


def mapped(vectors: Tensor, residual: Tensor) -> Tensor:
    return normalize(vectors + vectors @ residual, dim=-1)


def drift_by_hand(now: Tensor, before: Tensor, gallery: Gallery) -> float:
    """Mean KL of the refined prediction of `before` from that of `now`, on the columns of `now`."""
    candidates, centroids = gallery.vectors[:, 0], gallery.centroids(NEIGHBOURS)
    lists = (now @ candidates.T).topk(NEIGHBOURS, dim=1).indices.tolist()
    total = 0.0
    for row, own in enumerate(lists):
        others = [c for number, listed in enumerate(lists) if number != row for c in listed]
        columns = torch.cat((candidates[own[:1]], candidates[others], centroids))
        source, current = (
            (columns @ queries[row] / TEMPERATURE).softmax(dim=0) for queries in (before, now)
        )
        total += float((source * (source / current).log()).sum())
    return total / len(lists)


def test_the_drift_of_tsa_is_that_of_its_own_view():
    encoder = ToyEncoder(dtype=torch.float64)
    gallery = toy_gallery(encoder, CANDIDATES)
    first, second = toy_queries(2, SIZE, CANDIDATES)
    method = Decoupled(
        TSA(temperature=TEMPERATURE, confidence=0.2, optimiser="sgd"),
        neighbours=NEIGHBOURS,
        drift_temperature=TEMPERATURE,
    )
    session = Session(encoder, gallery, method, lr=0.3, steps=1)
    session.answer(first)
    learnt = {name: value.clone() for name, value in session.params.items()}
    session.answer(second)

    queries, candidates = encoder.encode(second), gallery.vectors[:, 0]
    both = torch.cat((candidates, mapped(candidates, learnt["tsa.gallery"])), dim=1)
    now = torch.cat((mapped(queries, learnt["tsa.query"]), queries), dim=1)
    before = torch.cat((queries, queries), dim=1)
    longer = Gallery.from_vectors(gallery.ids, both / math.sqrt(2))
    expected = drift_by_hand(now / math.sqrt(2), before / math.sqrt(2), longer)
    assert expected > 1e-4
    assert session.stats().drift == pytest.approx(expected, rel=1e-6)
