"""AdamW and gradient descent against torch's own, in float64 over many steps."""

import pytest
import torch
from torch import Tensor, nn

from queryshift.methods.optimiser import Adapted, Layout

SHAPES = {"gain": (6,), "bias": (6,), "map": (2, 3)}


def draw(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, dtype=torch.float64, generator=generator)
        for name, shape in SHAPES.items()
    }


def stepped(optimiser: torch.optim.Optimizer, params: dict[str, Tensor], seed: int) -> None:
    for name, gradient in draw(seed).items():
        params[name].grad = gradient * 10.0 ** (seed % 7 - 4)  # of very different sizes
    optimiser.step()


def ours(adapted: Adapted, layout: Layout, seed: int, rule: str, **settings: float) -> Adapted:
    gradient = layout.flat(draw(seed)) * 10.0 ** (seed % 7 - 4)
    return adapted.updated(rule, gradient, **settings)


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize("lr", [3e-4, 1e-2])
def test_adamw_is_torchs(lr, weight_decay):
    params = {name: nn.Parameter(value) for name, value in draw(0).items()}
    optimiser = torch.optim.AdamW(params.values(), lr=lr, weight_decay=weight_decay)
    layout = Layout.of(draw(0))
    adapted = Adapted.fresh(layout.flat(draw(0)))
    for seed in range(1, 201):
        stepped(optimiser, params, seed)
        adapted = ours(adapted, layout, seed, "adamw", lr=lr, weight_decay=weight_decay)
    for name, value in layout.split(adapted.values).items():
        torch.testing.assert_close(value, params[name].detach(), atol=1e-12, rtol=0)
    assert adapted.updates == 200


def test_a_rate_that_changes_from_step_to_step_is_torchs_too():
    params = {name: nn.Parameter(value) for name, value in draw(0).items()}
    optimiser = torch.optim.AdamW(params.values(), weight_decay=1e-4)
    layout = Layout.of(draw(0))
    adapted = Adapted.fresh(layout.flat(draw(0)))
    for seed in range(1, 51):
        rate = torch.tensor(1e-3 / seed, dtype=torch.float64)
        optimiser.param_groups[0]["lr"] = float(rate)
        stepped(optimiser, params, seed)
        adapted = ours(adapted, layout, seed, "adamw", lr=rate, weight_decay=1e-4)
    for name, value in layout.split(adapted.values).items():
        torch.testing.assert_close(value, params[name].detach(), atol=1e-12, rtol=0)


def test_sgd_is_torchs_with_the_decay_decoupled():
    start, lr, decay = draw(0), 1e-2, 0.1
    params = {name: nn.Parameter(value) for name, value in start.items()}
    optimiser = torch.optim.SGD(params.values(), lr=lr)
    layout = Layout.of(start)
    adapted = Adapted.fresh(layout.flat(draw(0)))
    for seed in range(1, 101):
        with torch.no_grad():
            for value in params.values():
                value.mul_(1 - lr * decay)
        stepped(optimiser, params, seed)
        adapted = ours(adapted, layout, seed, "sgd", lr=lr, weight_decay=decay)
    assert adapted.updates == 100
    for name, value in layout.split(adapted.values).items():
        torch.testing.assert_close(value, params[name].detach(), atol=1e-12, rtol=0)


def test_a_constant_scale_of_the_gradient_hardly_matters_to_adamw():
    """Why `weight_on` exists: exp(-D_KL) acts through its changes only."""
    layout = Layout.of(draw(0))
    plain = scaled = Adapted.fresh(layout.flat(draw(0)))
    for seed in range(1, 21):
        gradient = layout.flat(draw(seed))
        plain = plain.updated("adamw", gradient, 1e-2, 0.0)
        scaled = scaled.updated("adamw", 0.3 * gradient, 1e-2, 0.0)
    torch.testing.assert_close(plain.values, scaled.values, atol=1e-6, rtol=0)


def test_a_step_leaves_the_state_before_it_alone():
    layout = Layout.of(draw(0))
    before = Adapted.fresh(layout.flat(draw(0)))
    before.updated("adamw", layout.flat(draw(1)), 1e-2, 1e-4)
    assert torch.equal(before.values, layout.flat(draw(0)))
    assert before.updates == 0
    assert not before.first.any()


def test_a_layout_splits_what_it_joined():
    layout = Layout.of(draw(0))
    found = layout.split(layout.flat(draw(0)))
    assert {name: tuple(value.shape) for name, value in found.items()} == SHAPES
    assert all(torch.equal(found[name], value) for name, value in draw(0).items())
