"""A matcher's ranking: the best hits by logit plus score, then all others in their order."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from queryshift import Gallery
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.reranking import MatchedRanking

QUERIES, CANDIDATES, RERANK = 5, 12, 4


@pytest.fixture
def asked():
    draw = torch.Generator().manual_seed(3)
    vectors = normalize(torch.randn(CANDIDATES + QUERIES, 6, generator=draw), dim=1)
    gallery = Gallery.from_vectors(range(CANDIDATES), vectors[:CANDIDATES])
    return Forward(vectors[CANDIDATES:], gallery)


class Matching:
    """Logits of a table of queries and candidates; counts the pairs of each call."""

    def __init__(self, pairs_at_once, rerank=RERANK):
        self.matcher = SimpleNamespace(rerank=rerank, pairs_at_once=pairs_at_once)
        self.table = torch.randn(
            QUERIES, CANDIDATES, generator=torch.Generator().manual_seed(4)
        ).mul(3)
        self.calls = []

    def logits(self, params, readings, positions):
        self.calls.append(tuple(positions.shape))
        matched = self.table[readings].gather(1, positions)
        return torch.stack((-matched, matched), dim=2)


def ranked(asked, matching):
    forward = SimpleNamespace(
        matcher_input=(matching, torch.arange(QUERIES)),
        direct_params={},
        matcher_places=lambda positions: positions,
    )
    return MatchedRanking(forward, asked)


def test_the_best_hits_are_ordered_by_logit_plus_score_before_all_others(asked):
    matching = Matching(pairs_at_once=100)
    plain, found = asked.hits(CANDIDATES), ranked(asked, matching).hits(6)
    for row in range(QUERIES):
        scores = dict(zip(plain.positions[row].tolist(), plain.scores[row].tolist(), strict=True))
        first = {at: scores[at] + float(matching.table[row, at]) for at in [*scores][:RERANK]}
        expected = sorted(first, key=lambda at: -first[at]) + [*scores][RERANK:6]
        assert found.positions[row].tolist() == expected
        for at, score in zip(expected, found.scores[row].tolist(), strict=True):
            assert score == pytest.approx(first.get(at, scores[at] - 100), abs=1e-4)


def test_fewer_hits_than_the_matcher_orders_are_the_first_of_them(asked):
    stage = ranked(asked, Matching(pairs_at_once=100))
    one = stage.hits(1).positions
    assert one.shape == (QUERIES, 1) and torch.equal(stage.hits(6).positions[:, :1], one)


@pytest.mark.parametrize("rerank", [RERANK, 1])
def test_all_scores_have_the_order_of_the_hits(asked, rerank):
    matching = Matching(pairs_at_once=100, rerank=rerank)
    stage = ranked(asked, matching)
    scores, hits = stage.all_scores(), stage.hits(CANDIDATES)
    assert set(matching.calls) == {(QUERIES, rerank)}
    assert torch.equal(scores.argsort(dim=1, descending=True), hits.positions)
    assert torch.allclose(scores.gather(1, hits.positions), hits.scores, atol=1e-4)


@pytest.mark.parametrize(("most", "sizes"), [(100, [5]), (9, [2, 2, 1]), (1, [1] * 5)])
def test_pairs_are_matched_a_few_queries_at_a_time_and_once(asked, most, sizes):
    matching = Matching(pairs_at_once=most)
    stage = ranked(asked, matching)
    first = stage.hits(3)
    assert matching.calls == [(size, RERANK) for size in sizes]
    assert torch.equal(stage.hits(2).positions, first.positions[:, :2])
    assert len(matching.calls) == len(sizes)
    whole = ranked(asked, Matching(pairs_at_once=100)).hits(3)
    assert torch.equal(first.positions, whole.positions)
