"""What a query bank keeps of its counts is what it would count anew, however queries come."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

from queryshift import Frozen, Gallery, Hubs, Session, Vectors
from queryshift.retrieval.hubness import query_bank

WIDTH = 12


def drawn(count: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] += 2
    return normalize(vectors, dim=1)


@pytest.mark.parametrize("at_once", [None, 60])
@pytest.mark.parametrize("size", [6, 30, 1024])
@pytest.mark.parametrize("parts", [(1, 1, 4, 1, 3, 2, 2, 1, 5), (5, 1, 1, 6, 20, 1, 4)])
def test_batches_of_one_and_of_several(size, parts, at_once, monkeypatch):
    for most in ("AT_ONCE", "CACHED") if at_once else ():  # three queries to a piece
        monkeypatch.setattr(query_bank, most, at_once)
    gallery = Gallery(range(20), drawn(20, 0)[:, None])
    session = Session(Vectors(WIDTH), gallery, Frozen(), hubs=Hubs(bank=size))
    for queries in drawn(sum(parts), 1).split(parts):
        session.answer(queries).top(1)
        bank = session.state.hubs
        anew = replace(bank)
        assert bank.pairs == anew.pairs
        assert torch.equal(bank.keys, anew.keys) and torch.equal(bank.spread_kept, anew.spread_kept)
        found, sums = vars(bank)["sums"], query_bank.HubSums.of(anew, gallery)
        for name in ("count", "total", "squares"):
            expected = pytest.approx(getattr(sums.moments, name), rel=2e-3)
            assert getattr(found.moments, name) == expected
        sums = query_bank.HubSums.of(anew, gallery, found.moments)
        assert found.scale.spread == sums.scale.spread
        assert torch.allclose(found.of_all, sums.of_all, atol=1e-3)
        assert torch.allclose(found.others, sums.others, atol=1e-2)


def test_of_single_queries_nothing_is_counted_anew(monkeypatch):
    counted = []
    coincidences = query_bank.coincidences
    monkeypatch.setattr(
        query_bank, "coincidences", lambda places: counted.append(places) or coincidences(places)
    )
    gallery = Gallery(range(20), drawn(20, 0)[:, None])
    session = Session(Vectors(WIDTH), gallery, Frozen(), hubs=Hubs(bank=30))
    for query in drawn(40, 1).split(1):  # the bank is full after 30
        session.answer(query).top(1)
    assert len(counted) <= 2
