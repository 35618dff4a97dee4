"""Hub sums over the hits of one search: those of a gallery in memory, in pieces of any size."""

import pytest
import torch
from torch.nn.functional import normalize

from queryshift import Gallery
from queryshift.retrieval.hubness import engine_sums, query_bank
from queryshift.retrieval.hubness.engine_sums import CentreMoments, HitSums
from queryshift.retrieval.hubness.query_bank import HubSums, Moments, QueryBank

WIDTH, CANDIDATES = 12, 40
SOME = {
    "all": torch.arange(CANDIDATES),
    "each third": torch.arange(0, CANDIDATES, 3),
    "none of the ends": torch.arange(12, 29),
}


def drawn(count: int, seed: int) -> torch.Tensor:
    """Unit vectors, drawn towards one direction."""
    vectors = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] += 2
    return normalize(vectors, dim=1)


def gallery_of(several: int) -> Gallery:
    return Gallery(range(CANDIDATES), drawn(CANDIDATES * several, 0).view(-1, several, WIDTH))


def bank_of(gallery: Gallery, count: int) -> QueryBank:
    """Queries whose top-1 result is their second one after correction."""
    vectors = drawn(count, 1).half()
    first, second = gallery.search(vectors.float(), 2).positions.T.contiguous()
    return QueryBank(vectors, first, second, torch.full((count,), 0.5))


@pytest.mark.parametrize("queries", [1, 30])
@pytest.mark.parametrize("several", [1, 2])
@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize("at_once", [1, 65, 2**24])
def test_are_those_of_the_gallery(queries, several, some, at_once, monkeypatch):
    gallery, pieces = gallery_of(several), []
    bank, positions = bank_of(gallery, queries), SOME[some]
    whole = HubSums.of(bank, gallery)
    monkeypatch.setattr(engine_sums, "AT_ONCE", at_once)
    similarity = query_bank.similarity
    monkeypatch.setattr(
        query_bank, "similarity", lambda *of: pieces.append(len(of[1])) or similarity(*of)
    )
    vectors = gallery.vectors[positions]
    found = HitSums(bank, positions, vectors, whole.scale)
    alone = HitSums(bank, positions, vectors, whole.scale).others  # before anything is kept
    width = min(len(positions), max(1, at_once // (queries * several)))
    assert set(pieces[:-1]) <= {width} == {pieces[0]} and sum(pieces) == len(positions)
    assert torch.allclose(found.of_all, whole.of_all[positions], atol=1e-5)
    for others in (found.others, alone):
        assert torch.allclose(others, whole.others[positions], atol=1e-4)


@pytest.mark.parametrize("stretch", [1.0, 1.5])
@pytest.mark.parametrize("known", ["nothing", "of_all", "others"])
def test_go_on_where_the_oldest_queries_leave(stretch, known):
    gallery = gallery_of(1)
    bank, positions = bank_of(gallery, 30), SOME["each third"]
    scale = HubSums.of(bank, gallery).scale
    sums = HitSums(bank, positions, gallery.vectors[positions], scale)
    getattr(sums, known, None)
    left = bank.taking(slice(7, None))
    after = scale._replace(spread=stretch * scale.spread)
    found = sums.left(7, left, after)
    anew = HitSums(left, positions, gallery.vectors[positions], after)
    assert torch.allclose(found.of_all, anew.of_all, atol=1e-5)
    assert torch.allclose(found.others, anew.others, atol=1e-5)


def test_moments_are_those_of_the_queries_that_have_come_and_not_left():
    gallery = gallery_of(1)
    bank = bank_of(gallery, 30)
    first, rest = bank.taking(slice(None, 11)), bank.taking(slice(11, None))
    empty = CentreMoments.of(bank.taking(slice(0)), gallery)
    assert empty.moments == Moments()
    both = empty.plus(first).plus(rest)
    for found, expected in ((both, bank), (both.minus(first), rest)):
        similarities = expected.vectors.float() @ gallery.centroids(256).T
        moments = found.moments
        assert moments.count == similarities.numel()
        assert moments.total == pytest.approx(float(similarities.sum()), rel=1e-4)
        assert moments.squares == pytest.approx(float(similarities.square().sum()), rel=1e-4)
        assert found.scale == (moments.mean, moments.spread)
