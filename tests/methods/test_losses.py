"""The equations of the paper against values worked out by hand or with NumPy in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from queryshift.methods import losses

INF = math.inf


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def unit(*shape: int, seed: int = 0) -> Tensor:
    return torch.nn.functional.normalize(randn(*shape, seed=seed), dim=-1)


def numpy_entropy(row: np.ndarray) -> float:
    weights = np.exp(row - row.max())
    shares = weights / weights.sum()
    return -sum(share * math.log(share) for share in shares if share > 0)


class TestEntropy:
    def test_by_hand(self):
        logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [math.log(3), 0.0, -INF, -INF]])
        quarter = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
        assert losses.entropy(logits).tolist() == pytest.approx([math.log(4), quarter])

    def test_numpy(self):
        logits = 5 * randn(6, 9)
        expected = [numpy_entropy(row) for row in logits.numpy()]
        assert losses.entropy(logits).tolist() == pytest.approx(expected, abs=1e-12)

    def test_absent_columns_count_for_nothing(self):
        logits = randn(4, 5)
        gaps = torch.full((4, 3), -INF, dtype=logits.dtype)
        wider = torch.cat((logits[:, :2], gaps, logits[:, 2:]), dim=1)
        torch.testing.assert_close(losses.entropy(wider), losses.entropy(logits))

    def test_one_column_left_is_certain_and_has_a_finite_slope(self):
        logits = torch.tensor([[2.0, -INF, -INF]], requires_grad=True)
        found = losses.entropy(logits)
        found.sum().backward()
        assert found.item() == 0
        assert logits.grad.tolist() == [[0, 0, 0]]

    def test_sharp_logits_do_not_overflow(self):
        assert losses.entropy(torch.tensor([[1e4, 0.0, -1e4]])).item() == 0

    @settings(deadline=None)
    @given(st.lists(st.floats(-50, 50), min_size=1, max_size=20))
    def test_between_zero_and_log_of_the_count(self, row):
        found = losses.entropy(torch.tensor([row], dtype=torch.float64)).item()
        assert -1e-12 <= found <= math.log(len(row)) + 1e-12


class TestUniformity:
    def test_by_hand(self):
        queries = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
        assert losses.uniformity(queries).item() == pytest.approx(math.exp(-1))
        assert losses.uniformity(queries, scale=0.1).item() == pytest.approx(math.exp(-0.1))

    @pytest.mark.parametrize("scale", [1.0, 0.1])
    def test_numpy(self, scale):
        queries = unit(7, 5)
        array = queries.numpy()
        far = np.linalg.norm(array - array.mean(0), axis=1)
        assert losses.uniformity(queries, scale).item() == pytest.approx(
            np.exp(-scale * far).mean()
        )

    def test_queries_that_are_all_alike_have_a_finite_slope(self):
        queries = torch.ones(3, 2, requires_grad=True)
        losses.uniformity(queries).backward()
        assert torch.isfinite(queries.grad).all()


class TestGapAndSourceDistance:
    def test_gap_by_hand(self):
        queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        candidates = torch.tensor([[-1.0, 0.0], [0.0, -1.0]])
        assert losses.gap(queries, candidates).item() == pytest.approx(math.sqrt(2))

    def test_gap_of_equal_centres_is_zero_with_a_finite_slope(self):
        queries = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
        found = losses.gap(queries, torch.tensor([[0.0, 1.0], [0.0, -1.0]]))
        found.backward()
        assert found.item() == pytest.approx(0, abs=1e-9)
        assert torch.isfinite(queries.grad).all()

    def test_source_distance_by_hand(self):
        queries = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
        candidates = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        half = math.sqrt(0.5)  # both candidates lie this far from their centre
        expected = [2 * 0 - (1 + half), 2 * math.sqrt(2) - (1 + half)]
        assert losses.source_distance(queries, candidates).tolist() == pytest.approx(expected)

    def test_source_distance_numpy(self):
        queries, candidates = unit(6, 4), unit(6, 4, seed=1)
        q, g = queries.numpy(), candidates.numpy()
        expected = [
            2 * np.linalg.norm(q[i] - g[i])
            - np.linalg.norm(q[i] - q.mean(0))
            - np.linalg.norm(g[i] - g.mean(0))
            for i in range(6)
        ]
        found = losses.source_distance(queries, candidates)
        assert found.tolist() == pytest.approx(expected, abs=1e-12)


class TestReliability:
    def test_by_hand(self):
        entropies = torch.tensor([0.0, 0.5, 1.0, 3.0])
        assert losses.reliability(entropies, 1.0).tolist() == [1.0, 0.5, 0.0, 0.0]

    def test_carries_no_gradient(self):
        entropies = torch.ones(3, requires_grad=True)
        assert not losses.reliability(entropies, 2.0).requires_grad

    def test_weighted_mean_divides_by_the_weights_that_count(self):
        values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.0])
        assert losses.weighted_mean(values, weights).item() == pytest.approx(1.0 / 2)

    def test_weighted_mean_where_one_weight_counts(self):
        values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.0, 0.25, 0.0])
        assert losses.weighted_mean(values, weights).item() == 0.5

    def test_weighted_mean_of_nothing_is_zero_on_the_graph(self):
        values = torch.ones(3, requires_grad=True)
        found = losses.weighted_mean(values, torch.zeros(3))
        found.backward()
        assert found.item() == 0
        assert values.grad.tolist() == [0, 0, 0]


def test_hard_margin_by_hand():
    found = losses.hard_margin(torch.tensor([0.8, 0.6]), torch.tensor([0.4, 0.6]))
    assert found.tolist() == pytest.approx([math.log(0.5), 0.0])


def test_hard_margin_has_no_floor():
    found = losses.hard_margin(torch.tensor([0.9, 1.0]), torch.tensor([0.009, 1e-6]))
    assert found.tolist() == pytest.approx([math.log(0.01), math.log(1e-6)])


class TestDivergence:
    def test_by_hand(self):
        source = torch.tensor([[0.0, 0.0]])
        now = torch.tensor([[math.log(3), 0.0]])  # 3/4 and 1/4
        expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
        assert losses.divergence(source, now).item() == pytest.approx(expected)

    def test_numpy_with_absent_columns(self):
        source, now = 3 * randn(5, 7), 3 * randn(5, 7, seed=1)
        hidden = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.3
        expected = 0.0
        for row in range(5):
            kept = ~hidden[row].numpy()
            p = np.exp(source[row].numpy()[kept])
            q = np.exp(now[row].numpy()[kept])
            p, q = p / p.sum(), q / q.sum()
            expected += (p * np.log(p / q)).sum() / 5
        masked = (source.masked_fill(hidden, -INF), now.masked_fill(hidden, -INF))
        assert losses.divergence(*masked).item() == pytest.approx(expected, abs=1e-12)

    def test_is_zero_and_flat_at_the_source(self):
        source = randn(4, 6)
        now = source.clone().requires_grad_()
        found = losses.divergence(source, now)
        found.backward()
        assert abs(found.item()) < 1e-15
        assert now.grad.abs().max() < 1e-15


SLOPES = {
    "entropy": lambda x: losses.entropy(x / 0.1),
    "entropy with absent columns": lambda x: losses.entropy(
        torch.cat((x, x.new_full((len(x), 2), -INF)), dim=1)
    ),
    "uniformity": lambda x: losses.uniformity(x, 0.7),
    "gap": lambda x: losses.gap(x, unit(5, 4, seed=3)),
    "source_distance": lambda x: losses.source_distance(x, unit(5, 4, seed=3)),
    "hard_margin": lambda x: losses.hard_margin((1 + x[:, 0]) / 2, (1 + x[:, 1]) / 2),
    "divergence": lambda x: losses.divergence(randn(5, 4, seed=3), x / 0.1),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_those_of_finite_differences(name):
    assert torch.autograd.gradcheck(SLOPES[name], (unit(5, 4).requires_grad_(),))
