"""A matcher's own parameters, and those it shares with the query's encoder."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from queryshift import REST, Gallery
from queryshift.encoders.matcher import PREFIX, Matcher
from queryshift.errors import BadInput
from queryshift.methods.losses import entropy
from queryshift.retrieval.forward import Forward


class Pairs(Matcher):
    """Scores a pair by two norm layers, one of which is the encoder's too."""

    def __init__(self):
        super().__init__()
        self.theirs, self.own = nn.LayerNorm(3), nn.LayerNorm(3)
        self.shared_names = {"last.weight": "theirs.weight", "last.bias": "theirs.bias"}

    def keep(self, items):
        return torch.stack(list(items))

    def forward(self, readings, candidates):
        each = len(candidates) // len(readings)
        mixed = self.theirs(readings).repeat_interleave(each, 0) * self.own(candidates)
        return torch.stack((-mixed.sum(1), mixed.sum(1)), dim=1)


CANDIDATES = torch.arange(12.0).view(4, 3) % 5
READINGS = torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 1.0]])
PLACES = torch.tensor([[0, 3], [1, 1]])


def test_what_is_shared_is_not_its_own():
    assert set(Pairs().own_params()) == {f"{PREFIX}own.weight", f"{PREFIX}own.bias"}


def test_what_the_encoder_learnt_stands_in_for_what_is_shared():
    matcher = Pairs()
    matching = matcher.over(iter(CANDIDATES), batch_size=3)
    params = {"last.weight": torch.full((3,), 2.0), f"{PREFIX}own.weight": torch.full((3,), 0.5)}
    plain = matching.logits({}, READINGS, PLACES)
    assert plain.shape == (2, 2, 2)
    assert torch.allclose(matching.logits(params, READINGS, PLACES), plain)  # 2 times a half
    alone = {"last.weight": torch.full((3,), 2.0), "another.weight": torch.zeros(3)}
    assert torch.allclose(matching.logits(alone, READINGS, PLACES), 2 * plain)
    assert torch.equal(matching.logits({}, READINGS, PLACES), plain)  # nothing stays


def test_weights_that_are_replaced_after_the_first_use_are_seen():
    matcher, other = Pairs(), Pairs()
    matching = matcher.over(CANDIDATES)
    before = matching.logits({}, READINGS, PLACES)
    nn.init.constant_(other.own.weight, 2.0)
    matcher.load_state_dict(other.state_dict(), assign=True)
    assert torch.allclose(matching.logits({}, READINGS, PLACES), 2 * before)


def test_no_candidates_and_one_in_the_place_of_many():
    with pytest.raises(BadInput, match="got no candidates to match with"):
        Pairs().over([])
    with pytest.raises(BadInput, match="got one str as a batch"):
        Pairs().over("a caption")


def test_pairs_without_a_matcher_are_refused():
    vectors = normalize(READINGS, dim=1)
    with pytest.raises(BadInput, match=r"no matcher to score pairs: .* matcher=matcher\.over"):
        Forward(vectors, Gallery.from_vectors(range(2), vectors)).match(PLACES[:, :1])


class TestMining:
    """REST's hard-mining loss (Eq. 14) on what the matcher says of two pairs for each query."""

    @pytest.fixture
    def seen(self):
        draw = torch.Generator().manual_seed(0)
        vectors, candidates = (
            normalize(torch.randn(count, 4, generator=draw, dtype=torch.float64), dim=1)
            for count in (5, 12)
        )
        matching = Pairs().double().over(list(torch.rand(12, 3, generator=draw).double()))
        return Forward(
            vectors=vectors.requires_grad_(),
            gallery=Gallery.from_vectors(range(12), candidates),
            matching=matching,
            readings=torch.rand(5, 3, generator=draw).double().requires_grad_(),
        )

    def loss_of(self, seen, **settings):
        method = REST(neighbours=3, uniformity=False, gap=False, entropy=False, **settings)
        memory = method.observe(seen, method.start(seen.gallery, torch.device("cpu")), 0)
        return method, memory, method.loss(seen, memory)

    def test_is_the_log_ratio_of_the_two_probabilities_of_a_match(self, seen):
        method, memory, loss = self.loss_of(seen)
        prediction = method.refined(seen)
        unsure = entropy(prediction.logits).detach()
        weights = (1 - unsure / (memory.entropies.max() + 1e-3)).clamp(min=0)
        expected = 0.0
        for row, (positive, hardest) in enumerate(prediction.pairs().tolist()):
            logits = seen.matching.logits(
                {}, seen.readings[row : row + 1], torch.tensor([[positive, hardest]])
            )[0]
            match = logits.exp()[:, 1] / logits.exp().sum(1)
            expected += weights[row] * (match[1] / match[0]).log()
        assert 0 < (weights > 0).sum() < 5
        assert loss.item() == pytest.approx((expected / (weights > 0).sum()).item())
        assert loss.item() != 0

    def test_a_step_down_makes_the_positive_likelier(self, seen):
        method, _, loss = self.loss_of(seen)
        (slope,) = torch.autograd.grad(loss, seen.readings)
        trusted = slope.abs().sum(1) > 0
        assert trusted.any()
        pairs = method.refined(seen).pairs()

        def odds(readings):
            match = seen.matching.logits({}, readings, pairs).softmax(2)[..., 1]
            return (match[:, 0] / match[:, 1])[trusted]

        assert (odds(seen.readings - 1e-3 * slope) > odds(seen.readings)).all()

    def test_by_cosine_asks_no_matcher(self, seen):
        *_, loss = self.loss_of(seen, mine_with="cosine")
        assert torch.autograd.grad(loss, seen.readings, allow_unused=True) == (None,)
