"""Parameter vectors as one: hand-worked numbers, and NumPy on the flattened vectors."""

import numpy as np
import pytest
import torch

from queryshift.encoders.encoder import Params
from queryshift.methods.gradients import angle, decouple, decouple_each, dot, norm, scale


def params(*parts: list[float]) -> Params:
    return {f"p{i}": torch.tensor(part, dtype=torch.float64) for i, part in enumerate(parts)}


def flat(one: Params) -> np.ndarray:
    return np.concatenate([value.numpy().ravel() for value in one.values()])


def draw(seed: int) -> Params:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"gain": (5,), "bias": (5,), "map": (2, 3)}
    return {
        name: torch.randn(shape, dtype=torch.float64, generator=generator)
        for name, shape in shapes.items()
    }


def test_dot_norm_and_scale_run_over_all_tensors():
    left, right = params([1.0, 2.0], [3.0]), params([4.0, -1.0], [2.0])
    assert dot(left, right).item() == 4 - 2 + 6
    assert norm(params([2.0, 3.0], [6.0])).item() == 7
    assert flat(scale(left, 0.5)).tolist() == [0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    ("right", "degrees"),
    [([1.0, 1.0], 45), ([0.0, 2.0], 90), ([-3.0, 0.0], 180), ([5.0, 0.0], 0), ([0.0, 0.0], 90)],
)
def test_angle_by_hand(right, degrees):
    assert angle(params([1.0], [0.0]), params(*[[x] for x in right])).item() == pytest.approx(
        degrees
    )


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_an_angle_does_not_depend_on_lengths(size):
    right = params([size], [size])
    assert angle(params([0.01], [0.0]), right).item() == pytest.approx(45)


@pytest.mark.parametrize(("factor", "degrees"), [(3.0, 0), (-3.0, 180)])
def test_parallel_vectors_have_an_angle_in_spite_of_rounding(factor, degrees):
    found = [angle(draw(seed), scale(draw(seed), factor)).item() for seed in range(20)]
    assert found == pytest.approx([degrees] * 20, abs=1e-4)


class TestDecouple:
    def test_takes_away_only_what_fights(self):
        kept = decouple(params([-2.0, 3.0]), params([1.0, 0.0]))
        assert kept["p0"].tolist() == [0.0, 3.0]

    def test_leaves_what_agrees(self):
        domain = params([2.0, 3.0])
        assert decouple(domain, params([1.0, 0.0]))["p0"].tolist() == [2.0, 3.0]

    def test_a_general_direction_of_zero_asks_for_nothing(self):
        domain = params([2.0, -3.0], [1.0])
        assert flat(decouple(domain, params([0.0, 0.0], [0.0]))).tolist() == [2.0, -3.0, 1.0]

    def test_a_tiny_general_direction_is_still_a_direction(self):
        kept = decouple(params([-2.0, 3.0]), params([1e-150, 0.0]))
        assert kept["p0"].tolist() == pytest.approx([0.0, 3.0])

    @pytest.mark.parametrize("seed", range(6))
    def test_is_the_projection_of_the_flattened_vectors(self, seed):
        domain, general = draw(seed), draw(seed + 100)
        d, g = flat(domain), flat(general)
        expected = d if d @ g >= 0 else d - (d @ g) / (g @ g) * g
        np.testing.assert_allclose(flat(decouple(domain, general)), expected, atol=1e-13)

    def test_each_tensor_alone_is_stricter(self):
        domain, general = params([-1.0], [3.0]), params([1.0], [1.0])
        assert flat(decouple(domain, general)).tolist() == [-1.0, 3.0]  # together they agree
        assert flat(decouple_each(domain, general)).tolist() == [0.0, 3.0]
