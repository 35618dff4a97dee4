"""A matcher's own parameters, and those it shares with the query's encoder."""

import pytest
import torch
from torch import nn

from queryshift.errors import BadInput
from queryshift.matcher import PREFIX, Matcher


class Pairs(Matcher):
    """Scores a pair by two norm layers, one of which is the encoder's too."""

    def __init__(self):
        super().__init__()
        self.theirs, self.own = nn.LayerNorm(3), nn.LayerNorm(3)
        self.twins = {"last.weight": "theirs.weight", "last.bias": "theirs.bias"}

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


def test_no_candidates_and_one_in_the_place_of_many():
    with pytest.raises(BadInput, match="got no candidates to match with"):
        Pairs().over([])
    with pytest.raises(BadInput, match="got one str as a batch"):
        Pairs().over("a caption")
