"""The losses over the whole gallery, each against its formula in NumPy."""

import numpy as np
import pytest
import torch
from fixed_retrieval import CANDIDATES, GALLERY, SIZE, entropy, retrieval, shares, softmax

from queryshift.galleries import Gallery
from queryshift.methods import COME, EATA, PL, READ, SAR, SHOT, InfoMax, Refined, Tent
from queryshift.methods.eata import Familiar
from queryshift.retrieval.forward import Forward

LEFT_OUT = torch.tensor([(row, column) for row in range(SIZE) for column in (row, 12)])


@pytest.fixture(params=[None, LEFT_OUT], ids=["all", "some left out"])
def seen(request):
    return retrieval(exclude=request.param)


@pytest.fixture(params=[0.02, 0.1, 0.5])
def tau(request):
    return request.param


def same(found, expected):
    assert found.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("method", [Tent, SHOT, COME, EATA, InfoMax])
def test_what_all_queries_leave_out_is_as_if_the_gallery_lacked_it(method):
    method, less = method(temperature=0.2), CANDIDATES - 2
    left_out = torch.tensor([(row, column) for row in range(SIZE) for column in (less, less + 1)])
    lacking = Gallery.from_vectors(range(less), GALLERY.vectors[:less])
    whole, part = retrieval(exclude=left_out), retrieval()
    part = Forward(part.vectors, lacking)
    memory = method.observe(part, Familiar(), step=0) if isinstance(method, EATA) else None
    found, expected = (method.loss(one, memory) for one in (whole, part))
    same(found, expected.item())
    slopes = [
        torch.autograd.grad(*pair)[0] for pair in ((found, whole.vectors), (expected, part.vectors))
    ]
    torch.testing.assert_close(*slopes, atol=1e-12, rtol=0)


def test_tent(seen, tau):
    same(Tent(temperature=tau).loss(seen, None), entropy(shares(seen, tau)).mean())


@pytest.mark.parametrize("confidence", [0.3, 0.6])
def test_pl(seen, tau, confidence):
    first = shares(seen, tau).max(axis=1)
    sure = first > confidence
    found = PL(temperature=tau, confidence=confidence).loss(seen, None)
    if sure.any():
        same(found, -np.log(first[sure]).mean())
    else:
        assert found is None


def test_pl_learns_nothing_where_nobody_is_sure(seen):
    assert PL(temperature=10.0).loss(seen, None) is None


@pytest.mark.parametrize("sure_queries", ["some", 1, 0])
def test_shot(seen, tau, sure_queries):
    p = shares(seen, tau)
    first, mean = p.max(axis=1), p.mean(axis=0)
    confidence = {"some": 0.3, 1: np.sort(first)[-2:].mean(), 0: 1.0}[sure_queries]
    sure = first > confidence
    assert sure_queries == "some" or sure.sum() == sure_queries
    labels = -np.log(first[sure]).mean() if sure.any() else 0.0
    expected = entropy(p).mean() + (mean * np.log(mean + 1e-5)).sum() + 0.1 * labels
    same(SHOT(temperature=tau, confidence=confidence).loss(seen, None), expected)


def test_read(seen, tau):
    p = shares(seen, tau)
    first = p.max(axis=1)
    expected = -(first * np.log(first)).mean() - entropy(softmax(p.sum(axis=0)))
    same(READ(temperature=tau).loss(seen, None), expected)


def test_read_pushes_a_sure_query_up_and_an_unsure_one_down():
    """-p log p turns at 1/e."""
    seen = retrieval()
    loss = READ(temperature=0.2, balance=0.0)
    first = shares(seen, 0.2).max(axis=1)
    (slope,) = torch.autograd.grad(loss.loss(seen, None), seen.vectors)
    after = shares(retrieval(seen.vectors.detach() - 1e-3 * slope), 0.2).max(axis=1)
    assert ((after > first) == (first > 1 / np.e)).all()
    assert (first > 1 / np.e).any()
    assert (first < 1 / np.e).any()


def test_come(seen, tau):
    logits = seen.scores.detach().numpy() / tau
    evidence = np.exp(logits)
    count = np.isfinite(logits).sum(axis=1, keepdims=True)
    total = evidence.sum(axis=1, keepdims=True) + count
    opinion = np.concatenate((evidence / total, count / total), axis=1)
    same(COME(temperature=tau).loss(seen, None), entropy(opinion).mean())


def test_come_cannot_win_by_longer_logits():
    """The derivative along the length of the logits is zero: only their direction counts."""
    seen = retrieval()
    scores = seen.scores
    (slope,) = torch.autograd.grad(COME(temperature=0.1).loss(seen, None), scores)
    torch.testing.assert_close((slope * scores).sum(dim=1), torch.zeros(SIZE).double())
    (plain,) = torch.autograd.grad(Tent(temperature=0.1).loss(seen, None), scores)
    assert (plain * scores).sum(dim=1).abs().min() > 1e-6


def test_come_does_not_overflow_at_low_temperatures():
    assert torch.isfinite(COME(temperature=1e-4).loss(retrieval(), None))


def test_come_with_a_scale_of_its_own():
    seen = retrieval()
    same(COME(evidence_scale=5.0).loss(seen, None), COME(temperature=0.2).loss(seen, None).item())


class TestEata:
    def test_chooses_the_surest_share_then_weighs_them(self, seen, tau):
        method = EATA(temperature=tau)
        memory = method.observe(seen, Familiar(), step=0)
        p = shares(seen, tau)
        unsure = entropy(p)
        chosen = unsure <= np.sort(unsure)[int(0.4 * SIZE) - 1]
        assert memory.chosen.tolist() == chosen.tolist()
        np.testing.assert_allclose(memory.mean, p[chosen].mean(axis=0), atol=1e-12)
        same(method.loss(seen, memory), (np.exp(0.4 - unsure) * unsure)[chosen].mean())

    def test_official_filter(self, seen):
        method = EATA(temperature=0.1, filter="log")
        memory = method.observe(seen, Familiar(), step=0)
        unsure, margin = entropy(shares(seen, 0.1)), 0.4 * np.log(CANDIDATES)
        assert memory.chosen.tolist() == (unsure < margin).tolist()
        expected = (np.exp(margin - unsure) * unsure)[unsure < margin].mean()
        same(method.loss(seen, memory), expected)

    def test_leaves_out_what_is_familiar(self, seen):
        method, p = EATA(temperature=0.02, redundancy=0.5), shares(seen, 0.02)
        usual = torch.from_numpy(p[:5].mean(axis=0))
        memory = method.observe(seen, Familiar(usual), step=1)
        near = p @ usual.numpy() / np.linalg.norm(p, axis=1) / np.linalg.norm(usual)
        unsure = entropy(p)
        chosen = (unsure <= np.sort(unsure)[3]) & (near < 0.5)
        assert memory.chosen.tolist() == chosen.tolist()
        if chosen.any():
            expected = 0.9 * usual.numpy() + 0.1 * p[chosen].mean(axis=0)
            np.testing.assert_allclose(memory.mean, expected, atol=1e-12)

    def test_learns_nothing_when_all_is_familiar(self, seen):
        method = EATA(temperature=0.02, redundancy=0.0)
        usual = torch.from_numpy(shares(seen, 0.02).mean(axis=0))
        memory = method.observe(seen, Familiar(usual), step=1)
        assert not memory.chosen.any()
        assert torch.equal(memory.mean, usual)
        assert method.loss(seen, memory) is None

    def test_importance_is_neither_printed_nor_compared(self):
        one, same_again = (EATA(fisher={"gain": torch.ones(2)}) for _ in range(2))
        assert one == same_again
        assert repr(one) == repr(EATA())


@pytest.mark.parametrize("method", [EATA, SAR])
@pytest.mark.parametrize(("size", "largest"), [(1, 0.0), (2, 0.0), (4, 0.0), (5, 0.1), (10, 0.3)])
def test_two_fifths_of_a_batch_are_reliable_and_at_least_one_query(method, size, largest):
    entropies = torch.arange(size).flip(0) / 10
    found = method().largest_entropy(entropies, CANDIDATES)
    assert float(found) == pytest.approx(largest)


def test_refined_read_and_shot_sum_over_candidates_not_over_columns():
    """Queries that are sure of different candidates are balanced, though all of column 0."""
    spread = Forward(GALLERY.vectors[:SIZE, 0].clone(), GALLERY)
    alike = Forward(GALLERY.vectors[[0] * SIZE, 0].clone(), GALLERY)
    for method in (READ(temperature=0.05), SHOT(temperature=0.05, label_weight=0.0)):
        wrapped = Refined(method, neighbours=1, duplicates="merge")
        assert wrapped.loss(spread, None) < wrapped.loss(alike, None) - 0.5
