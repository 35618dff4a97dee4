"""`queryshift models check`: facts about a model, and a warning for each known trap."""

import json

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import queryshift as qs
from queryshift.cli import main
from queryshift.models.inspect import check, examine


class Plain(qs.Encoder):
    """A well-behaved encoder of texts, for the others to spoil."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.rows = nn.Embedding(256, 12)
        self.norm = nn.LayerNorm(12)
        self.out = nn.Linear(12, 6)

    def prepare(self, items):
        return torch.stack([torch.tensor([*text.ljust(40).encode()[:40]]) for text in items])

    def forward(self, prepared):
        return nn.functional.normalize(self.raw(prepared), dim=-1)

    def raw(self, prepared):
        return self.out(self.norm(self.rows(prepared).mean(1)))


class Long(Plain):
    def forward(self, prepared):
        return 3 * super().forward(prepared)


class Restless(Plain):
    def forward(self, prepared):
        return nn.functional.normalize(self.raw(prepared) + torch.rand(6), dim=-1)


class Blind(Plain):
    def prepare(self, items):
        return torch.zeros(len(items), 4, dtype=torch.long)


class Idle(Plain):
    def __init__(self):
        super().__init__()
        self.spare = nn.LayerNorm(3)


class Detached(Plain):
    """As many a model's own `encode` function: without a graph."""

    @torch.no_grad()
    def forward(self, prepared):
        return super().forward(prepared)


class Beside(Plain):
    """Holds its model in a list, where no module sees it."""

    def __init__(self):
        super().__init__()
        self.held = [Plain()]

    def forward(self, prepared):
        return self.held[0].forward(prepared)


class Split(Plain):
    def finish(self, shared):
        return -self.forward(shared)

    def encode(self, items):
        return self.forward(self.prepare(items)).detach()


class Bare(Plain):
    norm_names = ()


@pytest.mark.parametrize(
    ("kind", "trap"),
    [
        (Long, "not of unit length"),
        (Restless, "gave other vectors the second time"),
        (Blind, "two different items gave the same vector"),
        (Idle, "2 adapted parameters never reach the vectors, such as spare.weight"),
        (Detached, "vectors of Detached do not depend on the norm layers that may adapt"),
        (Beside, "vectors of Beside do not depend on the norm layers that may adapt"),
        (Split, "seen through its own parameters it gives other vectors"),
        (Bare, "no norm layer that can adapt"),
    ],
)
def test_every_trap_has_its_warning(kind, trap):
    assert any(trap in warning for warning in examine({"text": kind()}, "mine").warnings)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_good_model_has_none_where_gradients_are_switched_off(mode):
    model = {"text": Plain()}
    with mode():
        assert examine(model, "mine").warnings == ()


def test_a_good_model_has_none():
    found = examine({"text": Plain()}, "mine")
    assert found.warnings == ()
    assert found.sides[0].dimensions == 6
    assert found.sides[0].adapted_parameters == 24
    assert found.sides[0].session_bytes == 24 * 4 * 3


def test_vectors_that_cannot_be_compared():
    found = examine({"text": Plain(), "text+text": Pair()}, "mine")
    assert found.warnings == ()
    assert "cannot be compared" in examine({"text": Plain(), "image": Pixels()}, "two").warnings[-1]


class Pair(Plain):
    def prepare(self, items):
        return super().prepare([left + right for left, right in items])


class Pixels(Plain):
    def prepare(self, items):
        return torch.stack([torch.from_numpy(item) for item in items]).flatten(1).long()

    def raw(self, prepared):
        return self.norm(self.rows(prepared).mean(1))


def test_an_unknown_modality_is_refused():
    with pytest.raises(qs.Error, match='no items to try "smell" with'):
        examine({"smell": Plain()}, "mine")


@pytest.mark.parametrize("architecture", ["CLIPModel", "Blip2ForImageTextRetrieval", "ClapModel"])
def test_tiny_checkpoints_pass(checkpoint, architecture):
    assert check(str(checkpoint(architecture))).warnings == ()


class TestCommand:
    def run(self, *arguments):
        return CliRunner().invoke(main, ["models", "check", *map(str, arguments)])

    def test_shows_a_table(self, checkpoint):
        result = self.run(checkpoint("CLIPModel"), "--adapt", "last:3")
        assert result.exit_code == 0, result.output
        for words in ("image", "text", "state per session", "No problems found"):
            assert words in result.output

    def test_gives_json(self, checkpoint):
        result = self.run(checkpoint("Blip2ForImageTextRetrieval"), "--json")
        found = json.loads(result.stdout)
        assert [side["vectors_per_item"] for side in found["sides"]] == [6, 1]
        assert found["warnings"] == []

    def test_a_wrong_class_is_one_sentence(self, checkpoint, tmp_path):
        (tmp_path / "config.json").write_text('{"architectures": ["BlipModel"]}')
        result = self.run(tmp_path)
        assert result.exit_code == 2
        assert "use a checkpoint saved from BlipForImageTextRetrieval" in result.output
