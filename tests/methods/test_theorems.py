"""The paper's two theorems, as properties."""

import math
from itertools import pairwise

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from queryshift.methods.gradients import decouple, decouple_each, dot, norm, scale
from queryshift.methods.losses import entropy
from queryshift.methods.optimiser import Adapted, Layout

logits = st.lists(st.floats(-6, 6), min_size=3, max_size=12)
numbers = st.lists(st.floats(-1e3, 1e3), min_size=7, max_size=7)
drifts = st.floats(0, 20)


def slopes_at_probabilities(shares: Tensor) -> Tensor:
    """dE/dp of the library's entropy: log p are logits of p whatever p sums to.

    With E(p) = -sum p log p and Z = sum p, entropy(log p) = E(p) / Z + log Z, whose slope at
    Z = 1 is dE/dp - E + 1: the theorem's slope, moved by a constant that is taken off again.
    """
    found = entropy(shares.log()[None]).sum()
    (slope,) = torch.autograd.grad(found, shares)
    return slope + found.detach() - 1


@settings(deadline=None)
@given(logits)
def test_entropy_pushes_easy_negatives_harder_than_hard_ones(row):
    """Theorem 1: |dE/dp_m| > |dE/dp_n| whenever p_m < p_n <= 1/e."""
    shares = torch.tensor(row, dtype=torch.float64).softmax(dim=0).requires_grad_()
    slopes = slopes_at_probabilities(shares).abs().tolist()
    negatives = sorted(
        (share, slope)
        for share, slope in zip(shares.tolist(), slopes, strict=True)
        if share <= 1 / math.e
    )
    for (easy, easy_slope), (hard, hard_slope) in pairwise(negatives):
        assert easy_slope > hard_slope or math.isclose(easy, hard, rel_tol=1e-9)


@settings(deadline=None)
@given(logits)
def test_the_theorems_slope_is_minus_log_p_minus_one(row):
    shares = torch.tensor(row, dtype=torch.float64).softmax(dim=0).requires_grad_()
    expected = -(shares.detach().log() + 1)
    torch.testing.assert_close(slopes_at_probabilities(shares), expected, atol=1e-9, rtol=1e-9)


def named(values: list[float]) -> dict[str, Tensor]:
    vector = torch.tensor(values, dtype=torch.float64)
    return {"gain": vector[:3], "bias": vector[3:]}


@settings(deadline=None)
@given(numbers, numbers, drifts)
def test_the_decoupled_gradient_never_fights_the_general_direction(domain, general, moved):
    """Theorem 2: W_d * decouple(G_d, G_r) . G_r >= 0, over all tensors or each alone."""
    domain, general = named(domain), named(general)
    rounding = 1e-12 * float(norm(domain) * norm(general))
    for kept in (decouple(domain, general), decouple_each(domain, general)):
        assert float(dot(scale(kept, math.exp(-moved)), general)) >= -rounding


@settings(deadline=None)
@given(numbers, numbers)
def test_decoupling_keeps_the_rest(domain, general):
    """Only a multiple of the general direction is taken away, and never more than was against."""
    domain, general = named(domain), named(general)
    assume(float(norm(general)) > 1e-3)
    kept = decouple(domain, general)
    taken = {name: domain[name] - kept[name] for name in domain}
    assert float(norm(kept)) <= float(norm(domain)) * (1 + 1e-12)
    cosine = float(dot(taken, general)) / max(float(norm(taken) * norm(general)), 1e-300)
    assert math.isclose(cosine, -1, rel_tol=1e-6) or float(norm(taken)) <= 1e-9 * float(
        norm(domain)
    )


@settings(deadline=None)
@given(numbers, numbers)
def test_a_plain_step_along_it_does_not_raise_the_drift_to_first_order(domain, general):
    """With SGD the theorem holds for the update itself, which AdamW's preconditioning breaks."""
    domain, general = named(domain), named(general)
    kept, layout = decouple(domain, general), Layout.of(domain)
    before = Adapted.fresh(layout.flat(general))
    step = before.updated("sgd", layout.flat(kept), 0.1, weight_decay=0.0).values - before.values
    size = float(norm(domain) * norm(general)) + float(norm(general)) ** 2
    assert float(step @ layout.flat(general)) <= 1e-9 * max(1.0, size)
