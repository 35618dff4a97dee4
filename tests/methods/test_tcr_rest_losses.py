"""The losses of TCR and REST with a known queue, against their formulas in NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fixed_retrieval import GALLERY, SIZE, entropy, pairs, retrieval, softmax

from queryshift.galleries import Gallery
from queryshift.methods import REST, TCR
from queryshift.retrieval.forward import Forward

K, TAU = 2, 0.2
TERMS = ("uniformity", "gap", "entropy", "mining")


class Numbers:
    """Everything the two losses are made of, from one retrieval and one queue."""

    def __init__(self, seen, queue) -> None:
        self.q, g = seen.vectors.detach().numpy(), GALLERY.vectors[:, 0].numpy()
        self.lists = np.argsort(-(self.q @ g.T), axis=1)[:, :K]
        self.g, self.p = g, g[self.lists[:, 0]]
        self.source_gap = np.linalg.norm(queue.queries.mean(0) - queue.candidates.mean(0))
        self.limit = float(queue.entropies.max())

    def uniformity(self, scale: float) -> float:
        return np.exp(-scale * np.linalg.norm(self.q - self.q.mean(0), axis=1)).mean()

    def gap(self) -> float:
        return (np.linalg.norm(self.q.mean(0) - self.p.mean(0)) - self.source_gap) ** 2

    def refined(self) -> tuple[np.ndarray, np.ndarray]:
        """Entropy of the refined prediction, and H of Eq. 14 (k != j)."""
        unsure, margins = [], []
        for i, query in enumerate(self.q):
            places = [c for j, row in enumerate(self.lists) if j != i for c in row]
            parts = (self.p[i : i + 1], self.g[places], GALLERY.centroids(K).numpy())
            columns = np.concatenate(parts)
            unsure.append(entropy(softmax(columns @ query / TAU)))
            others = self.g[[k for k in places if k != self.lists[i, 0]]]
            near, hard = (1 + self.p[i] @ query) / 2, (1 + (others @ query).max()) / 2
            margins.append(-np.log(near) + np.log(hard))
        return np.array(unsure), np.array(margins)

    def weights(self, unsure: np.ndarray) -> np.ndarray:
        return np.maximum(1 - unsure / (self.limit + 1e-3), 0)


@pytest.mark.parametrize("limit", [0.3, 1.2, 2.0])
def test_tcr(limit):
    seen, queue = retrieval(), pairs(entropy_limit=limit)
    numbers = Numbers(seen, queue)
    unsure = entropy(softmax(numbers.q @ numbers.p.T / TAU))
    kept = unsure <= limit
    robust = (numbers.weights(unsure) * unsure)[kept].mean() if kept.any() else 0.0
    expected = robust + numbers.uniformity(0.1) + numbers.gap()
    found = TCR(temperature=TAU).loss(seen, queue)
    assert found.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("limit", [0.3, 1.9, 3.0])
@pytest.mark.parametrize("kept", [TERMS, *[(term,) for term in TERMS]], ids=str)
def test_rest(limit, kept):
    seen, queue = retrieval(), pairs(entropy_limit=limit)
    numbers = Numbers(seen, queue)
    unsure, margins = numbers.refined()
    weights = numbers.weights(unsure)
    trusted = max(1, (weights != 0).sum())
    terms = {
        "uniformity": numbers.uniformity(1.0),
        "gap": numbers.gap(),
        "entropy": (weights * unsure).sum() / trusted,
        "mining": (weights * margins).sum() / trusted,
    }
    chosen = {term: term in kept for term in TERMS}
    found = REST(temperature=TAU, neighbours=K, **chosen).loss(seen, queue)
    assert found.item() == pytest.approx(sum(terms[term] for term in kept), abs=1e-12)


def test_these_limits_trust_none_some_and_all():
    seen = retrieval()
    unsure, _ = Numbers(seen, pairs()).refined()
    trusted = [(unsure < limit).sum() for limit in (0.3, 1.9, 3.0)]
    assert trusted[0] == 0
    assert 0 < trusted[1] < SIZE
    assert trusted[2] == SIZE


@pytest.mark.parametrize("method", [TCR, REST], ids=["tcr", "rest"])
def test_where_nothing_is_reliable_only_the_other_terms_act(method):
    seen, queue, method = retrieval(), pairs(), method(temperature=10.0)  # unsure of everything
    found = method.loss(seen, queue)
    scale, numbers = method.uniformity_scale, Numbers(seen, queue)
    assert found.item() == pytest.approx(numbers.uniformity(scale) + numbers.gap(), abs=1e-12)
    (slope,) = torch.autograd.grad(found, seen.vectors)
    assert torch.isfinite(slope).all()
    assert slope.abs().max() > 0


@pytest.mark.parametrize("consistency", ["affine", "clamp"])
def test_a_consistency_of_zero_has_a_finite_loss(consistency):
    seen = retrieval(-GALLERY.vectors[:SIZE, 0])
    found = REST(consistency=consistency).loss(seen, pairs(entropy_limit=9.0))
    assert torch.isfinite(found)


@pytest.mark.parametrize(
    ("consistency", "hard"), [("affine", (1 - 0.96) / 2), ("clamp", 1e-6)], ids=["affine", "clamp"]
)
def test_negatives_far_on_the_other_side_have_margins_far_below_minus_one(consistency, hard):
    """Two queries whose only negatives have cosine -0.96; both are trusted."""
    gallery = Gallery.from_vectors("ab", torch.tensor([[0.6, 0.8], [-0.8, -0.6]]).double())
    seen = Forward(gallery.vectors[:, 0].clone().requires_grad_(), gallery)
    chosen = {term: term == "mining" for term in TERMS}
    method = REST(neighbours=1, consistency=consistency, **chosen)
    found = method.loss(seen, pairs(entropy_limit=1e9))
    assert found.item() == pytest.approx(np.log(hard), rel=1e-6)


@pytest.mark.parametrize("mine_with", ["matcher", "cosine"])
def test_with_a_matcher_consistencies_are_its_probabilities_of_a_match(mine_with):
    logits = torch.tensor([[[1.0, 2.0], [0.5, -0.5]], [[3.0, 1.0], [0.0, -90.0]]])
    cosines = torch.tensor([0.6, 0.2]), torch.tensor([0.4, -0.5])
    pairs = torch.tensor([[3, 1], [2, 0]])
    prediction = SimpleNamespace(pairs=lambda: pairs, hardest=lambda: cosines)
    asked = []
    forward = SimpleNamespace(matching=True, match=lambda pairs: asked.append(pairs) or logits)
    positive, hardest = REST(mine_with=mine_with)._consistencies(forward, prediction)
    if mine_with == "cosine":
        assert not asked and torch.allclose(positive, torch.tensor([0.8, 0.6]))
        assert torch.allclose(hardest, torch.tensor([0.7, 0.25]))
        return
    assert asked == [pairs]
    matched = 1 / (1 + np.exp(-np.array([[1.0, -1.0], [-2.0, -90.0]])))
    floor = REST().consistency_floor
    assert np.allclose(positive, matched[:, 0]) and floor > matched[1, 1]
    assert np.allclose(hardest, [matched[0, 1], floor])
