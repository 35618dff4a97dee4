"""Candidate selection and refined prediction (Eq. 4-5) against loops in NumPy."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from queryshift.galleries import Gallery
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import RefinedPrediction, refine, refined

K, TAU = 3, 0.05


def unit(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, dtype=torch.float64, generator=generator), dim=-1)


def gallery_of(candidates: int, each: int = 1) -> Gallery:
    return Gallery.from_vectors(range(candidates), unit(candidates, each, 4, seed=1))


QUERIES = unit(6, 4, seed=0)
GALLERY = gallery_of(9)  # small: most candidates are listed by several queries


def similarity(query: np.ndarray, candidate: np.ndarray) -> float:
    return max(float(query @ vector) for vector in candidate)


class Loops:
    """Eq. 4 word by word: for every query a list of its candidates' similarities."""

    def __init__(self, queries: Tensor, gallery: Gallery, excluded: Sequence[set[int]] = ()):
        self.queries, self.candidates = queries.numpy(), gallery.vectors.numpy()
        self.excluded = excluded or [set() for _ in self.queries]
        self.lists = [self.best(i) for i in range(len(self.queries))]
        self.centroids = gallery.centroids(K).numpy()

    def best(self, i: int) -> list[int]:
        allowed = [c for c in range(len(self.candidates)) if c not in self.excluded[i]]
        return sorted(allowed, key=lambda c: -self.to(i, c))[:K]

    def to(self, i: int, candidate: int) -> float:
        return similarity(self.queries[i], self.candidates[candidate])

    def negatives(self, i: int, duplicates: str, own_copies: bool) -> list[int]:
        found = [c for j, listed in enumerate(self.lists) if j != i for c in listed]
        found = [c for c in found if c not in self.excluded[i]]
        if duplicates == "merge":
            return sorted(set(found) - {self.lists[i][0]})
        return found if own_copies else [c for c in found if c != self.lists[i][0]]

    def hardest(self, i: int, duplicates: str, own_copies: bool) -> int:
        """Eq. 14: the hardest negative k is another candidate than the positive j."""
        j = self.lists[i][0]
        others = [k for k in self.negatives(i, duplicates, own_copies) if k != j]
        return max(others, key=lambda k: self.to(i, k), default=j)

    def row(self, i: int, duplicates: str = "keep", own_copies: bool = True) -> list[list[float]]:
        """Similarity of the positive, of the sample negatives, of the cluster negatives."""
        negatives = [self.to(i, c) for c in self.negatives(i, duplicates, own_copies)]
        centroids = [float(self.queries[i] @ centre) for centre in self.centroids]
        return [[self.to(i, self.lists[i][0])], negatives, centroids]


def assert_rows(found: RefinedPrediction, loops: Loops, duplicates: str, own_copies: bool) -> None:
    logits, clusters = found.logits, len(loops.centroids)
    for i, row in enumerate(logits.tolist()):
        positive, negatives, centroids = loops.row(i, duplicates, own_copies)
        seen = [value * TAU for value in row[1:-clusters] if value > -np.inf]
        assert [row[0] * TAU] == pytest.approx(positive, abs=1e-12)
        assert sorted(seen) == pytest.approx(sorted(negatives), abs=1e-12)
        assert [v * TAU for v in row[-clusters:]] == pytest.approx(centroids, abs=1e-12)


@pytest.mark.parametrize("own_copies", [True, False])
@pytest.mark.parametrize("duplicates", ["keep", "merge"])
@pytest.mark.parametrize("each", [1, 3], ids=["one vector", "several vectors"])
@pytest.mark.parametrize("excluded", [False, True], ids=["all", "some left out"])
def test_columns_and_hardest_negatives(duplicates, own_copies, each, excluded):
    gallery = gallery_of(9, each)
    first = Loops(QUERIES, gallery).lists[0][0]
    left_out = [{first}, {first, 2}, set(), {4}, set(), set()] if excluded else []
    pairs = torch.tensor([(i, c) for i, names in enumerate(left_out) for c in sorted(names)])
    seen = Forward(QUERIES, gallery, exclude=pairs if excluded else None)
    found = refined(seen, K, TAU, duplicates, own_copies)
    loops = Loops(QUERIES, gallery, left_out)
    assert_rows(found, loops, duplicates, own_copies)
    chosen = [(loops.lists[i][0], loops.hardest(i, duplicates, own_copies)) for i in range(6)]
    assert found.pairs().tolist() == [list(pair) for pair in chosen]
    assert torch.stack(found.hardest(), dim=1).tolist() == [
        pytest.approx([loops.to(i, c) for c in pair], abs=1e-12) for i, pair in enumerate(chosen)
    ]


def test_the_galleries_of_these_tests_tell_the_choices_apart():
    loops = Loops(QUERIES, GALLERY)
    sizes = {
        (duplicates, own): sum(len(loops.negatives(i, duplicates, own)) for i in range(6))
        for duplicates, own in [("keep", True), ("keep", False), ("merge", True)]
    }
    assert sizes["keep", True] == 6 * 5 * K
    assert sizes["keep", True] > sizes["keep", False] > sizes["merge", True]


def test_layout_is_positive_then_lists_then_centroids():
    found = refine(QUERIES, GALLERY, K, TAU)
    assert found.logits.shape == (6, 1 + 6 * K + K)
    assert found.positive.tolist() == [0] * 6
    hidden = torch.isneginf(found.logits)
    assert not hidden[:, 0].any()
    assert not hidden[:, -K:].any()
    for i in range(6):
        assert hidden[i].nonzero().flatten().tolist() == list(range(1 + i * K, 1 + (i + 1) * K))


def test_more_neighbours_than_candidates_takes_what_there_is():
    gallery = gallery_of(2)
    found = refine(QUERIES, gallery, neighbours=10, temperature=TAU)
    assert found.logits.shape == (6, 1 + 6 * 2 + 2)
    assert torch.isfinite(found.logits.logsumexp(dim=1)).all()


def test_one_query_is_left_with_its_positive_and_the_centroids():
    found = refine(QUERIES[:1], GALLERY, K, TAU)
    assert torch.isfinite(found.logits).sum() == 1 + K
    assert_nothing_to_push(found)


def assert_nothing_to_push(found: RefinedPrediction) -> None:
    """The positive stands in for the hardest negative, and the slope of the margin is 0."""
    positive, hardest = found.hardest()
    assert positive.tolist() == hardest.tolist()
    assert found.pairs().tolist() == [[place, place] for place in found.nearest.tolist()]
    if found.queries.requires_grad:
        (slope,) = torch.autograd.grad((hardest - positive).sum(), found.queries)
        assert slope.tolist() == torch.zeros_like(slope).tolist()


class TestCopiesOfThePositive:
    """Another query lists the first one's positive too."""

    TWICE = QUERIES[[0, 0, 1]]

    def test_are_predicted_but_are_no_hard_negatives(self):
        found = refine(self.TWICE, GALLERY, K, TAU)
        positive, hardest = found.hardest()
        assert found.similarities[0, 1 : 1 + 3 * K].max().item() == pytest.approx(
            positive[0].item()
        )
        assert (hardest < positive - 1e-3).all()

    @pytest.mark.parametrize("duplicates", ["keep", "merge"])
    def test_are_no_negatives_where_nothing_else_is_listed(self, duplicates):
        queries = self.TWICE[:2].clone().requires_grad_()
        found = refined(Forward(queries, GALLERY), 1, TAU, duplicates)
        assert_nothing_to_push(found)


@pytest.mark.parametrize("duplicates", ["keep", "merge"])
def test_summed_shares_are_those_of_each_candidate(duplicates):
    """Whatever column a candidate stands in; the centroids come last."""
    found = refined(Forward(QUERIES, GALLERY), K, TAU, duplicates)
    loops, shares = Loops(QUERIES, GALLERY), found.logits.softmax(dim=1)
    weights = {}
    for i in range(6):
        listed = [loops.lists[i][0], *loops.negatives(i, duplicates, own_copies=True)]
        row = [np.exp(loops.to(i, c) / TAU) for c in listed]
        clusters = np.exp(loops.centroids @ loops.queries[i] / TAU)
        for candidate, weight in zip(listed, row, strict=True):
            share = weight / (sum(row) + clusters.sum())
            weights[candidate] = weights.get(candidate, 0) + share
    total = found.summed(shares)
    assert total[:-K].tolist() == pytest.approx([weights[c] for c in sorted(weights)], abs=1e-12)
    torch.testing.assert_close(total[-K:], shares[:, -K:].sum(dim=0))


class TestSeenBy:
    def test_the_same_queries_see_the_same(self):
        found = refine(QUERIES, GALLERY, K, TAU)
        assert torch.equal(found.similarities_of(QUERIES), found.similarities)

    def test_other_vectors_meet_the_very_same_columns(self):
        found, others = refine(QUERIES, GALLERY, K, TAU), unit(6, 4, seed=7)
        loops = Loops(QUERIES, GALLERY)
        seen = found.similarities_of(others)
        assert torch.equal(torch.isneginf(seen), torch.isneginf(found.similarities))
        columns = [c for listed in loops.lists for c in listed]
        for i in range(6):
            own = similarity(others[i].numpy(), loops.candidates[loops.lists[i][0]])
            assert seen[i, 0].item() == pytest.approx(own, abs=1e-12)
            for column, candidate in enumerate(columns, start=1):
                if not torch.isneginf(seen[i, column]):
                    expected = similarity(others[i].numpy(), loops.candidates[candidate])
                    assert seen[i, column].item() == pytest.approx(expected, abs=1e-12)

    def test_several_vectors_are_chosen_anew_for_other_queries(self):
        gallery, others = gallery_of(9, each=3), unit(6, 4, seed=7)
        found = refine(QUERIES, gallery, K, TAU)
        loops = Loops(QUERIES, gallery)
        seen = found.similarities_of(others)[:, 0].tolist()
        expected = [
            similarity(others[i].numpy(), loops.candidates[loops.lists[i][0]]) for i in range(6)
        ]
        assert seen == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("each", [1, 3], ids=["one vector", "several vectors"])
def test_slopes_reach_the_queries_through_every_column(each):
    gallery = gallery_of(9, each)
    assert torch.autograd.gradcheck(
        lambda q: refine(q, gallery, K, TAU).logits.nan_to_num(neginf=0.0),
        (QUERIES.clone().requires_grad_(),),
    )
