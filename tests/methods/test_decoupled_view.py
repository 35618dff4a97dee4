"""Decoupling a method that ranks by vectors of its own: drift is measured on those."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift import TSA, Decoupled, Gallery, Session
from queryshift.methods.decoupled import drift
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined
from toy import ToyEncoder, toy_gallery, toy_queries

CANDIDATES, SIZE, NEIGHBOURS, TEMPERATURE = 40, 12, 3, 0.1


def mapped(vectors: Tensor, residual: Tensor) -> Tensor:
    return normalize(vectors + vectors @ residual, dim=-1)


def drift_by_hand(now: Tensor, moved: Gallery, before: Tensor, gallery: Gallery) -> float:
    """Mean KL of the refined prediction before from that of now, over the same candidates."""
    lists = (now @ moved.vectors[:, 0].T).topk(NEIGHBOURS, dim=1).indices.tolist()
    total = 0.0
    for row, own in enumerate(lists):
        others = [c for number, listed in enumerate(lists) if number != row for c in listed]
        places = [*own[:1], *others]
        source, current = (
            torch.cat((some.vectors[places, 0], some.centroids(NEIGHBOURS)))
            .mv(queries[row] / TEMPERATURE)
            .softmax(dim=0)
            for queries, some in ((before, gallery), (now, moved))
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
    session = Session(encoder, gallery, method, lr=0.3, steps=1, guard=None)
    session.answer(first)
    learnt = {name: value.clone() for name, value in session.params.items()}
    session.answer(second)

    queries, candidates = encoder.encode(second), gallery.vectors[:, 0]
    both = torch.cat((candidates, mapped(candidates, learnt["tsa.gallery"])), dim=1)
    now = torch.cat((mapped(queries, learnt["tsa.query"]), queries), dim=1)
    before = torch.cat((queries, queries), dim=1)
    moved, plain = (
        Gallery.from_vectors(gallery.ids, vectors / math.sqrt(2))
        for vectors in (both, torch.cat((candidates, candidates), dim=1))
    )
    expected = drift_by_hand(now / math.sqrt(2), moved, before / math.sqrt(2), plain)
    assert expected > 1e-4
    assert session.stats().drift == pytest.approx(expected, rel=1e-6)


def test_a_gallery_that_moves_alone_is_drift():
    encoder = ToyEncoder(dtype=torch.float64)
    gallery = toy_gallery(encoder, CANDIDATES)
    vectors = encoder.encode(toy_queries(1, SIZE, CANDIDATES)[0])
    forward = Forward(vectors, gallery, direct_params=TSA().adapts(encoder, gallery))
    source = TSA().view(forward, None)
    turned = torch.linspace(-0.3, 0.3, gallery.dimension**2, dtype=torch.float64)
    params = {**forward.direct_params, "tsa.gallery": turned.reshape(gallery.dimension, -1)}
    now = TSA().view(replace(forward, direct_params=params), None)
    assert float(drift(source, refined(source, NEIGHBOURS, TEMPERATURE))) == pytest.approx(0)
    assert float(drift(source, refined(now, NEIGHBOURS, TEMPERATURE))) > 1e-3
