"""Which norm layers adapt: all, the last blocks, or by patterns of their names."""

import pytest
import torch
from torch import nn

import queryshift as qs
from queryshift.encoders.adapted_parameters import select
from queryshift.models.blocks import BELOW, BlockEncoder

RUNS = []


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.norm = nn.LayerNorm(8)
        self.mix = nn.Linear(8, 8)

    def forward(self, hidden):
        RUNS.append(self.number)
        return hidden + self.mix(self.norm(hidden))


class Stack(BlockEncoder):
    block_list = "stack"

    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(8)
        self.stack = nn.ModuleList(Block(number) for number in range(4))
        self.after = nn.LayerNorm(8)

    def prepare(self, items):
        return {"values": torch.stack(items)}

    def embed(self, prepared):
        hidden = self.before(prepared["values"])
        for block in self.stack:
            hidden = block(hidden)
        return self.after(hidden)


@pytest.fixture()
def encoder():
    torch.manual_seed(0)
    return Stack().eval()


@pytest.fixture()
def batch():
    return list(torch.randn(5, 8, generator=torch.Generator().manual_seed(2)))


def cut(encoder, wish):
    from queryshift.encoders.adapted_parameters import adapt

    adapt({"vector": encoder}, wish)
    return encoder


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        ("all", "before 0 1 2 3 after"),
        ("last:1", "3"),
        ("last:4", "0 1 2 3"),
        ("after", "after"),
        ("stack.*", "0 1 2 3"),
        (["last:2", "after"], "2 3 after"),
        ("!before", "0 1 2 3 after"),
        (["last:3", "!stack.2.*"], "1 3"),
        (["!before", "!after"], "0 1 2 3"),
    ],
)
def test_names(encoder, wish, chosen):
    names = [name if "stack" not in name else name.split(".")[1] for name in select(encoder, wish)]
    assert " ".join(names) == chosen


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        ("last:5", 'has 4 blocks, so it may be "last:1" to "last:4"'),
        ("last:0", "has 4 blocks"),
        ("last:x", "has 4 blocks"),
        ("middle", 'matches no norm layer of Stack; it may be "all"'),
        (["after", "!after"], "leaves no norm layer"),
    ],
)
def test_refusals(encoder, wish, complaint):
    with pytest.raises(qs.Error, match=complaint):
        select(encoder, wish)


def test_an_unknown_modality_is_refused(encoder):
    with pytest.raises(qs.Error, match='adapt names "sound", but the model has: vector'):
        cut(encoder, {"sound": "all"})


@pytest.mark.parametrize(
    ("wish", "lowest"),
    [("last:1", 3), ("last:3", 1), (["last:2", "after"], 2), ("after", 3), ("!before", 0)],
)
def test_what_lies_below_runs_once_for_any_number_of_looks(encoder, batch, wish, lowest):
    whole = encoder.encode(batch)
    cut(encoder, wish)
    shared = encoder.ready(batch)
    assert (BELOW in shared) == (lowest > 0)
    RUNS.clear()
    for _ in range(3):
        assert torch.allclose(encoder.through(encoder.norm_params(), shared), whole, atol=1e-6)
    assert 3 * list(range(lowest, 4)) == RUNS


def test_a_norm_before_the_blocks_keeps_them_all_running(encoder, batch):
    cut(encoder, ["before", "last:1"])
    assert BELOW not in encoder.ready(batch)


def test_no_graph_reaches_below(encoder, batch):
    cut(encoder, "last:2")
    params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
    vectors = encoder.through(params, encoder.ready(batch))
    for gradient in torch.autograd.grad(vectors[:, 0].sum(), list(params.values())):
        assert gradient.abs().max() > 0


def test_a_batch_can_be_finished_in_pieces(encoder, batch):
    from queryshift.encoders.prepared import take

    cut(encoder, "last:2")
    shared = encoder.ready(batch)
    pieces = [encoder.finish(take(shared, slice(at, at + 2))) for at in (0, 2, 4)]
    assert torch.allclose(torch.cat(pieces), encoder.finish(shared), atol=1e-6)


def test_a_failed_look_leaves_the_encoder_as_it_was(encoder, batch):
    cut(encoder, "last:2")
    whole = encoder.encode(batch)
    with pytest.raises(RuntimeError):
        encoder.finish({"values": torch.zeros(5, 8), BELOW: torch.zeros(5, 7)})
    assert torch.equal(encoder.encode(batch), whole)
    assert torch.allclose(encoder(encoder.prepare(batch)), whole, atol=1e-6)


def test_blocks_in_the_wrong_order_are_noticed(encoder, batch):
    encoder.embed = lambda prepared: prepared["values"]
    cut(encoder, "last:2")
    with pytest.raises(qs.Error, match="never reached the first adapted block"):
        encoder.ready(batch)


def test_an_encoder_is_cut_once(encoder):
    cut(encoder, "last:2")
    with pytest.raises(qs.Error, match="load it again"):
        cut(encoder, "last:1")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's own, while it traces
@pytest.mark.parametrize("wish", ["all", "last:2"])
def test_compiled_blocks_give_the_same(encoder, batch, monkeypatch, wish):
    compiled = []

    def as_it_is_but_through_dynamo(block):  # needs no C++ compiler
        compiled.append(block.number)
        block._compiled_call_impl = torch.compile(block._call_impl, backend="eager")

    monkeypatch.setattr(nn.Module, "compile", as_it_is_but_through_dynamo)
    whole = encoder.forward(encoder.prepare(batch))
    cut(encoder, wish).compiled = True
    params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
    vectors = encoder.through(params, encoder.ready(batch))
    assert torch.allclose(vectors, whole, atol=1e-6)
    assert compiled == [0, 1, 2, 3]
    assert all(g.abs().max() > 0 for g in torch.autograd.grad(vectors[:, 0].sum(), params.values()))
