"""Fusion of two rankings against plain loops: both predictions, their mixture, and its order."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from queryshift import Gallery, Hubs
from queryshift.retrieval.answer import FusedRanking
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.retrieval.pool import Pool

WIDTH, QUERIES = 12, 7


def unit(count: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    return normalize(vectors, dim=1)


def both(gallery, exclude=None, apart: float = 1.0) -> tuple[Forward, Forward]:
    """The same queries, seen by two models."""
    source = unit(QUERIES, 1)
    adapted = normalize(source + apart * unit(QUERIES, 2), dim=1)
    return Forward(source, gallery, exclude), Forward(adapted, gallery, exclude)


def in_memory(count: int) -> Gallery:
    return Gallery(range(count), unit(count, 0)[:, None])


def scores_of(forward: Forward, gallery: Gallery) -> list[list[float]]:
    """Each query's score of each candidate in float64; None where it is excluded."""
    scores = (forward.vectors.double() @ gallery.vectors[:, 0].double().T).tolist()
    for row, column in [] if forward.exclude is None else forward.exclude.tolist():
        scores[row][column] = None
    return scores


def plain(source: list[float], adapted: list[float], weight: float) -> list[tuple[int, float]]:
    """Candidates of one query with their probabilities, best first, by loops."""

    def best(scores):
        known = [c for c, score in enumerate(scores) if score is not None]
        return sorted(known, key=lambda c: -scores[c])

    def predicted(scores, temperature):
        weights = {c: math.exp(scores[c] / temperature) for c in best(scores)[:100]}
        return {c: one / sum(weights.values()) for c, one in weights.items()}

    first = [source[c] for c in best(source)[:100]]
    mean = sum(first) / len(first)
    spread = math.sqrt(sum((one - mean) ** 2 for one in first) / len(first))
    of_source, of_adapted = predicted(source, spread), predicted(adapted, spread)
    shares = {c: 0.0 for c in best(adapted)}  # those on neither list follow in the adapted order
    for c in shares:
        shares[c] = (1 - weight) * of_source.get(c, 0) + weight * of_adapted.get(c, 0)
    return sorted(shares.items(), key=lambda pair: -pair[1])  # which is stable


def check(order: FusedRanking, source: Forward, adapted: Forward, gallery, weight, count) -> None:
    found = order.hits(count)
    pairs = zip(scores_of(source, gallery), scores_of(adapted, gallery), strict=True)
    for row, (one, other) in enumerate(pairs):
        expected = plain(one, other, weight)[:count]
        assert found.positions[row].tolist() == [c for c, _ in expected]
        assert found.scores[row].tolist() == pytest.approx([p for _, p in expected], abs=2e-6)


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.6])
@pytest.mark.parametrize("candidates", [2, 40, 100, 150, 400])
@pytest.mark.parametrize("count", [1, 10, 100, 130])
def test_is_the_mixture_of_both_predictions(weight, candidates, count):
    gallery = in_memory(candidates)
    source, adapted = both(gallery)
    order = FusedRanking(source, adapted, weight)
    assert order.hits(count).positions.shape == (QUERIES, min(count, candidates))
    check(order, source, adapted, gallery, weight, min(count, candidates))


def test_a_gallery_of_one_candidate():
    source, adapted = both(in_memory(1))
    hits = FusedRanking(source, adapted, 0.5).hits(10)
    assert hits.positions.tolist() == [[0]] * QUERIES
    assert hits.scores.tolist() == [[1.0]] * QUERIES


def test_candidates_that_are_all_alike_are_equally_likely():
    alike = Gallery(range(5), torch.eye(WIDTH)[:1].repeat(5, 1)[:, None])  # to the last bit
    source, adapted = both(alike)
    scores = FusedRanking(source, adapted, 0.5).all_scores()
    assert torch.isfinite(scores).all() and torch.allclose(scores, torch.full((QUERIES, 5), 0.2))


def test_no_candidate_comes_twice_and_the_shares_of_both_lists_sum_to_one():
    source, adapted = both(in_memory(400))
    hits = FusedRanking(source, adapted, 0.3).hits(200)
    for row in hits.positions.tolist():
        assert len(set(row)) == 200
    assert torch.allclose(hits.scores.sum(dim=1), torch.ones(QUERIES), atol=1e-5)
    assert bool((hits.scores >= 0).all())  # no second mention among them


def test_one_and_the_same_ranking_stays_as_it_is():
    source, _ = both(in_memory(300))
    found = FusedRanking(source, source, 0.4).hits(150).positions
    assert torch.equal(found, source.hits(150).positions)


def test_at_full_weight_the_adapted_order_is_left():
    source, adapted = both(in_memory(300))
    assert torch.equal(
        FusedRanking(source, adapted, 1.0).hits(100).positions, adapted.hits(100).positions
    )


def test_a_model_whose_scores_lie_close_together_counts_for_little():
    gallery = in_memory(300)
    source, adapted = both(gallery)
    crowded = Forward(0.01 * adapted.vectors, gallery)  # its prediction is as good as even
    found = FusedRanking(source, crowded, 0.6).hits(1).positions
    assert torch.equal(found, source.hits(1).positions)


@pytest.mark.parametrize("candidates", [30, 300])
def test_excluded_candidates_stay_out(candidates):
    gallery = in_memory(candidates)
    left_out = torch.tensor([(row, c) for row in range(QUERIES) for c in (0, row + 3, row + 9)])
    source, adapted = both(gallery, left_out)
    order = FusedRanking(source, adapted, 0.5)
    check(order, source, adapted, gallery, 0.5, candidates - 3)
    assert order.hits(candidates).positions.shape == (QUERIES, candidates - 3)
    excluded = order.all_scores()[left_out[:, 0], left_out[:, 1]]
    assert torch.isneginf(excluded).all()


@pytest.mark.parametrize("exclude", [None, torch.tensor([(0, 1), (2, 5)])])
@pytest.mark.parametrize("candidates", [40, 400])
def test_all_scores_agree_with_the_hits(candidates, exclude):
    source, adapted = both(in_memory(candidates), exclude)
    order = FusedRanking(source, adapted, 0.4)
    hits, scores = order.hits(candidates), order.all_scores()
    likely = hits.scores > 0
    assert torch.equal(scores.gather(1, hits.positions)[likely], hits.scores[likely])
    width = hits.positions.shape[1]
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, :width]
    assert torch.equal(best[:, :100], hits.positions[:, :100])
    behind = (adapted.all_scores().gather(1, one)[:, 100:] for one in (best, hits.positions))
    assert torch.allclose(*behind, atol=2e-5)  # set back by 100, scores this close are equal


def test_a_corrected_ranking_is_fused_as_it_is_corrected():
    gallery = in_memory(300)
    source, adapted = both(gallery)
    nothing = QueryBank.empty(WIDTH, torch.device("cpu"))
    corrected = Hubs().rank(adapted, adapted, nothing)
    weights = corrected.all_scores().tolist()
    found = FusedRanking(source, corrected, 0.5).hits(20)
    for row, one in enumerate(scores_of(source, gallery)):
        expected = plain(one, weights[row], 0.5)[:20]
        assert found.positions[row].tolist() == [c for c, _ in expected]


def test_over_an_engine_it_is_what_it_is_in_memory(tmp_path):
    """Each model searches for itself: candidates are known by what either of them met."""
    pytest.importorskip("faiss", exc_type=ImportError)
    from tests.engines.new_collections import create_faiss as create

    gallery = in_memory(400)
    there = create(f"faiss:{tmp_path}/x", gallery.ids, gallery.vectors[:, 0].numpy())
    forwards = both(gallery)
    expected = FusedRanking(*forwards, 0.5)
    found = FusedRanking(*(Forward(one.vectors, Pool(there, 100)) for one in forwards), 0.5)
    for count in (5, 100, 150):
        assert found.hits(count).ids == expected.hits(count).ids
        assert torch.allclose(found.hits(count).scores, expected.hits(count).scores, atol=1e-5)
        assert torch.allclose(found.hits(count).vectors, expected.hits(count).vectors, atol=1e-6)
