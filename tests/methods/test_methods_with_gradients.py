"""SAR, TSA and decoupling, which override more than a loss: one look at a time."""

import math

import pytest
import torch
from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.methods import REST, SAR, TSA, Decoupled, Refined, Tent
from queryshift.methods.base import StepView, Update
from queryshift.methods.decoupled import decoupled, drift
from queryshift.methods.gradients import angle, decouple, dot
from queryshift.retrieval.forward import Batch
from queryshift.retrieval.refinement import refined
from toy import ToyEncoder, toy_gallery, toy_queries

CANDIDATES, SIZE = 60, 16


class World:
    """A toy encoder with its gallery, and looks at one batch."""

    def __init__(self) -> None:
        self.encoder = ToyEncoder(dtype=torch.float64)
        self.gallery = toy_gallery(self.encoder, CANDIDATES)
        self.items = toy_queries(1, SIZE, CANDIDATES)[0]
        self.source = self.encoder.norm_params()

    def look(
        self, params: Params | None = None, source: Params | None = None, exclude=None
    ) -> StepView:
        source = self.source if source is None else source
        batch = Batch(self.encoder, self.gallery, self.encoder.ready(self.items), exclude)
        return StepView(batch, source if params is None else params, source, seed=3)

    def moved(self, by: float = 0.1) -> Params:
        generator = torch.Generator().manual_seed(0)
        return {
            name: value + by * torch.randn(value.shape, generator=generator, dtype=value.dtype)
            for name, value in self.source.items()
        }


@pytest.fixture(scope="module")
def world():
    return World()


class TestSar:
    def test_learns_nothing_where_the_nearby_point_is_worse_for_all(self, world):
        update = SAR(temperature=0.05, radius=3.0).gradient(world.look(), None)
        assert update.gradient is None
        assert not update.restart

    def test_moving_average_follows_by_a_tenth(self, world):
        first = SAR(temperature=0.1, reset_below=None).gradient(world.look(), None).memory
        after = SAR(temperature=0.1, reset_below=None).gradient(world.look(), 2.0).memory
        assert after == pytest.approx(0.9 * 2.0 + 0.1 * first)

    @pytest.mark.parametrize("keep_average", [False, True])
    def test_restarts_below_the_limit(self, world, keep_average):
        plain = SAR(temperature=0.1, reset_below=None).gradient(world.look(), None)
        method = SAR(temperature=0.1, reset_below=plain.memory + 0.01, keep_average=keep_average)
        update = method.gradient(world.look(), None)
        assert update.restart
        assert update.gradient is None
        assert update.memory == (plain.memory if keep_average else None)

    def test_limit_may_follow_the_size_of_the_gallery(self, world):
        plain = SAR(temperature=0.1, reset_below=None).gradient(world.look(), None)
        exact = plain.memory * math.log(1000) / math.log(CANDIDATES)
        for limit, restarts in ((exact * 1.00001, True), (exact * 0.99999, False)):
            scaled = SAR(temperature=0.1, reset_below=limit, normalised_reset=True)
            assert scaled.gradient(world.look(), None).restart == restarts

    @pytest.mark.parametrize("memory", [math.nan, math.inf, 1, True, "0.5"])
    def test_a_moving_loss_from_a_file_is_a_finite_number_or_none(self, world, memory):
        for fine in (None, 0.5):
            SAR().check_memory(fine, world.gallery)
        with pytest.raises(ValueError, match="no finite number"):
            SAR().check_memory(memory, world.gallery)


class TestTsa:
    @pytest.fixture
    def look(self, world):
        source = TSA().adapts(world.encoder, world.gallery)
        left_out = torch.tensor([(row, row) for row in range(SIZE)])
        return world.look(source=source, exclude=left_out)

    def test_starts_as_the_frozen_model(self, world, look):
        ranked = TSA().view(look.now, None).hits(5)
        plain = look.now.hits(5)
        assert torch.equal(ranked.positions, plain.positions)
        torch.testing.assert_close(ranked.scores, plain.scores)

    def test_its_slope_is_finite_where_candidates_are_left_out(self, look):
        gradient = TSA(temperature=0.1).gradient(look, None).gradient
        assert gradient.keys() == {"tsa.query", "tsa.gallery", "tsa.router"}
        assert all(torch.isfinite(value).all() for value in gradient.values())
        assert gradient["tsa.query"].abs().max() > 0
        assert gradient["tsa.gallery"].abs().max() > 0

    def test_the_router_sends_about_half_of_the_queries_each_way(self, look):
        side = TSA()._route(look.now, seed=1)
        assert 0.2 < float((side > 0.5).double().mean()) < 0.8


class Given(Tent):
    """Tent with a gradient that is given."""

    def gradient(self, look: StepView, memory: Params) -> Update:
        return Update(memory)


def general_of(look: StepView, neighbours: int = 10, tau: float = 0.02) -> tuple[Tensor, Params]:
    moved = drift(look.source, refined(look.now, neighbours, tau))
    return moved.detach(), look.now.gradients(moved)[0]


class TestDecoupled:
    def test_at_the_source_there_is_nothing_to_decouple_from(self, world):
        plain, wrapped = Tent().gradient(world.look(), None), Decoupled(Tent())
        update = wrapped.gradient(world.look(), None)
        assert not update.measures
        assert all(torch.equal(update.gradient[n], g) for n, g in plain.gradient.items())

    @pytest.mark.parametrize("sign", [1, -1], ids=["agrees", "fights"])
    def test_takes_away_what_fights_and_weighs_the_rest(self, world, sign):
        look = world.look(world.moved())
        moved, general = general_of(look)
        across = {n: (value - world.source[n]) for n, value in look.params.items()}
        domain = {n: across[n] + sign * 50 * g for n, g in general.items()}
        assert (dot(domain, general) > 0) == (sign > 0)
        update = Decoupled(Given()).gradient(look, domain)
        expected = domain if sign > 0 else decouple(domain, general)
        for name, value in update.gradient.items():
            torch.testing.assert_close(value, torch.exp(-moved) * expected[name])
        assert update.measures["drift"].item() == pytest.approx(moved.item())
        measured = update.measures["domain_angle"].item()
        assert measured == pytest.approx(angle(domain, general).item())
        assert update.measures["applied_angle"].item() <= 90 + 1e-6

    def test_weight_on_the_rate_leaves_the_gradient_its_length(self, world):
        look = world.look(world.moved())
        moved, general = general_of(look)
        update = Decoupled(Given(), weight_on="lr").gradient(look, general)
        assert float(update.rate) == pytest.approx(math.exp(-moved.item()))
        assert all(torch.equal(update.gradient[n], g) for n, g in general.items())

    def test_weight_on_the_rate_comes_on_top_of_the_methods_own(self, world):
        look = world.look(world.moved())
        moved, general = general_of(look)
        moving = drift(look.source, refined(look.now, 10, 0.02))
        update = decoupled(look, Update(general, rate=0.5), moving, weight_on="lr")
        assert float(update.rate) == pytest.approx(0.5 * math.exp(-moved.item()))

    def test_a_drift_that_is_rounding_decouples_nothing(self, world):
        """Exactly at the minimum the general direction is noise, which must not be followed."""
        look = world.look(world.moved(by=1e-9))
        moved, general = general_of(look)
        assert 0 <= moved.abs() < 1e-8
        domain = {n: -1e3 * g for n, g in general.items()}
        update = Decoupled(Given()).gradient(look, domain)
        assert all(torch.allclose(update.gradient[n], g) for n, g in domain.items())

    @pytest.mark.parametrize(("drift_now", "decouples"), [(2.5e-9, False), (4e-8, True)])
    def test_a_divergence_counts_from_a_hundred_millionth_on(self, world, drift_now, decouples):
        probe, _ = general_of(world.look(world.moved(by=1e-4)))
        by = 1e-4 * math.sqrt(drift_now / probe)  # a divergence grows with the square
        look = world.look(world.moved(by=by))
        moved, general = general_of(look)
        assert moved.item() == pytest.approx(drift_now, rel=0.1)
        self._decouples(look, {n: -10 * g for n, g in general.items()}, decouples)

    @pytest.mark.parametrize(("ratio", "decouples"), [(2.5e-7, False), (4e-6, True)])
    def test_a_general_direction_counts_from_a_millionth_of_the_gradient_on(
        self, world, ratio, decouples
    ):
        look = world.look(world.moved())
        _, general = general_of(look)
        self._decouples(look, {n: -g / ratio for n, g in general.items()}, decouples)

    def _decouples(self, look: StepView, domain: Params, expected: bool) -> None:
        """Whether a gradient straight against the general direction is taken away, or kept."""
        update = Decoupled(Given()).gradient(look, domain)
        weight = math.exp(-update.measures["drift"].item())
        for name, value in update.gradient.items():
            left = torch.zeros_like(value) if expected else weight * domain[name]
            size = domain[name].abs().max().item()
            torch.testing.assert_close(value, left, rtol=1e-9, atol=1e-9 * size)

    def test_nothing_to_learn_stays_nothing(self, world):
        update = decoupled(world.look(world.moved()), Update(None), torch.zeros(()))
        assert update.gradient is None

    def test_rest_decouples_as_the_wrapper_does(self, world):
        look = world.look(world.moved())
        memory = REST().observe(look.now, REST().start(world.gallery, look.now.vectors.device), 0)
        own = REST(decouple=True).gradient(look, memory)
        wrapped = Decoupled(REST()).gradient(look, memory)
        for name, value in own.gradient.items():
            torch.testing.assert_close(value, wrapped.gradient[name])


class Around(Tent):
    """Looks at other parameters too, as SAR does."""

    def gradient(self, look: StepView, memory: list[tuple[Tensor, Tensor]]) -> Update:
        memory.append((look.now.scores, look.at(look.params).scores))
        return Update(None)


def test_refined_candidates_are_those_of_every_look(world):
    seen: list[tuple[Tensor, Tensor]] = []
    Refined(Around(), neighbours=3).gradient(world.look(), seen)
    ((here, there),) = seen
    assert here.shape == (SIZE, 1 + 3 * SIZE + 3)
    assert torch.equal(here, there)
