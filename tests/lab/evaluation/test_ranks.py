"""Metrics against cases worked out by hand."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from queryshift import Gallery
from queryshift.errors import BadInput
from queryshift.lab.evaluation import ranks
from queryshift.lab.evaluation.rank_metrics import metric
from queryshift.retrieval.answer import Answer
from queryshift.retrieval.forward import Forward


def gallery_on_circle(*degrees: float) -> Gallery:
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return Gallery.from_vectors(range(len(angles)), torch.stack((angles.cos(), angles.sin()), 1))


def query(*degrees: float) -> torch.Tensor:
    return gallery_on_circle(*degrees).vectors[:, 0]


def scored(queries: torch.Tensor, gallery: Gallery, exclude=None) -> torch.Tensor:
    return Answer(Forward(queries, gallery, exclude)).scores()


def test_spread_is_the_mean_distance_to_the_centre():
    assert ranks.spread(query(0, 180)) == pytest.approx(1)
    assert ranks.spread(query(30, 30, 30)) == pytest.approx(0)
    assert ranks.spread(query(0, 90)) == pytest.approx(math.sqrt(0.5))


def test_gap_is_the_distance_of_the_centres():
    assert ranks.gap(query(0, 180), query(90)) == pytest.approx(1)
    assert ranks.gap(query(0), query(180)) == pytest.approx(2)
    several = query(90, 270, 90, 270).view(2, 2, 2)
    assert ranks.gap(query(0, 180), several) == pytest.approx(0, abs=1e-12)


def test_rank_of_a_single_right_answer():
    gallery = gallery_on_circle(0, 20, 40, 60)
    found = ranks.ranks(scored(query(1, 1, 59), gallery), [[0], [3], [1]])
    assert found.tolist() == [1, 4, 3]


def test_several_right_answers_count_by_the_best_of_them():
    gallery = gallery_on_circle(0, 20, 40, 60)
    right = [[1, 2, 3], [3, 2]]
    every = ranks.relevant_ranks(scored(query(1, 1), gallery), right)
    assert every.tolist() == [[2, 3, 4], [3, 4, 0]]
    assert ranks.ranks(scored(query(1, 1), gallery), right).tolist() == [2, 3]


def test_an_answer_named_twice_counts_once():
    found = ranks.relevant_ranks(scored(query(1), gallery_on_circle(0, 20, 40)), [[1, 1]])
    assert found.tolist() == [[2, 0]]


def test_ties_rank_the_right_answer_after_the_wrong_ones():
    gallery = gallery_on_circle(10, 10, 10, 50)
    assert ranks.ranks(scored(query(10, 10), gallery), [[0], [1]]).tolist() == [3, 3]
    assert ranks.ranks(scored(query(10), gallery), [[0, 1, 2]]).tolist() == [1]
    assert ranks.ranks(scored(query(10), gallery), [[0, 1]]).tolist() == [2]


@pytest.mark.parametrize(("roundings", "rank"), [(0, 2), (3, 2), (6, 1)])
def test_scores_a_few_roundings_apart_tie(roundings, rank):
    """The right answer is ahead, by so little that another order of summing could undo it."""
    cosines = 0.5 - torch.tensor([0.0, roundings * torch.finfo(torch.float32).eps])
    vectors = torch.stack((cosines, (1 - cosines.square()).sqrt()), dim=1)
    gallery = Gallery(range(2), vectors[:, None])
    assert ranks.ranks(scored(torch.tensor([[1.0, 0.0]]), gallery), [[0]]).tolist() == [rank]


def test_a_collapsed_gallery_ranks_last():
    vectors = normalize(torch.ones(1, 37), dim=1).expand(1000, 37)
    queries = normalize(torch.randn(3, 37, generator=torch.Generator().manual_seed(0)), dim=1)
    gallery = Gallery.from_vectors(range(1000), vectors)
    assert ranks.ranks(scored(queries, gallery), [[0], [500], [999]]).tolist() == [1000] * 3


def test_a_model_that_gives_nan_ranks_last():
    scores = scored(torch.full((1, 2), math.nan), gallery_on_circle(0, 20, 40))
    found = ranks.ranks(scores, [[0, 1]])
    assert found.tolist() == [2]


def test_excluded_candidates_take_no_place():
    gallery = gallery_on_circle(0, 20, 40, 60)
    exclude = torch.tensor([[0, 0], [0, 1], [1, 3]])
    found = ranks.ranks(scored(query(1, 1), gallery, exclude), [[2], [2]])
    assert found.tolist() == [1, 3]


def test_ranks_agree_with_a_plain_sort():
    draw = torch.Generator().manual_seed(2)
    gallery = Gallery.from_vectors(range(40), torch.randn(40, 6, generator=draw).double())
    queries = normalize(torch.randn(9, 6, generator=draw).double(), dim=1)
    order = (queries @ gallery.vectors[:, 0].T).argsort(dim=1, descending=True)
    right = [[4 * row, 39 - row] for row in range(9)]
    expected = [sorted(order[row].tolist().index(p) + 1 for p in right[row]) for row in range(9)]
    assert ranks.relevant_ranks(scored(queries, gallery), right).tolist() == expected


def test_half_precision_galleries_are_ranked_in_float32():
    gallery = gallery_on_circle(0, 20, 40)
    half = Gallery.from_vectors(gallery.ids, gallery.vectors.bfloat16())
    assert ranks.ranks(scored(query(19).bfloat16(), half), [[1]]).tolist() == [1]


def test_recall():
    found = torch.tensor([1, 2, 6, 11])
    assert ranks.recall(found, 1) == 25
    assert ranks.recall(found, 5) == 50
    assert ranks.recall(found, 10) == 75


@pytest.mark.parametrize(
    ("right", "text"),
    [([[0]], "1 of 2 queries"), ([[0], []], "1 of 2 queries"), ([[0], [3]], "position 3")],
)
def test_right_answers_that_do_not_fit_are_refused(right, text):
    with pytest.raises(BadInput, match=text):
        ranks.ranks(scored(query(1, 2), gallery_on_circle(0, 20, 40)), right)


def test_subset_ranks_count_only_the_few_of_a_query():
    gallery = gallery_on_circle(0, 20, 40, 60)
    found = ranks.subset_ranks(scored(query(1, 1), gallery), [[3], [2]], [[3, 1], [0, 1, 3]])
    assert found.tolist() == [2, 3]
    with pytest.raises(BadInput, match="positions"):
        ranks.subset_ranks(scored(query(1), gallery), [[3]], [[9]])


def test_metrics_agree_with_ir_measures():
    import ir_measures
    from ir_measures import AP, RR, Success

    draw = torch.Generator().manual_seed(3)
    queries, candidates = torch.randn(40, 16, generator=draw), torch.randn(300, 16, generator=draw)
    gallery = Gallery.from_vectors(range(300), candidates)
    queries = normalize(queries, dim=1)
    right = [torch.randperm(300, generator=draw)[: 1 + row % 5].tolist() for row in range(40)]
    scores = (queries.double() @ gallery.vectors[:, 0].double().T).tolist()
    theirs = ir_measures.calc_aggregate(
        [AP, RR, *(Success @ k for k in (1, 5, 10, 50))],
        {str(row): {str(one): 1 for one in ones} for row, ones in enumerate(right)},
        {str(row): {str(i): s for i, s in enumerate(line)} for row, line in enumerate(scores)},
    )
    ours = ranks.relevant_ranks(scored(queries, gallery), right)
    assert metric("map").of(ours.numpy()) == pytest.approx(100 * theirs[AP])
    assert metric("mrr").of(ours.numpy()) == pytest.approx(100 * theirs[RR])
    for k in (1, 5, 10, 50):
        assert ranks.recall(ours[:, 0], k) == pytest.approx(100 * theirs[Success @ k])


def test_an_answer_that_scores_all_alike_ranks_last():
    alike = torch.zeros(2, 4)
    assert ranks.relevant_ranks(alike, [[0], [0, 1]]).tolist() == [[4, 0], [3, 4]]
