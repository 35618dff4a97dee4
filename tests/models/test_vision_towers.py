"""Slim blocks give what Hugging Face's own give, from fewer rows and less kept memory."""

import subprocess
import sys

import pytest
import torch

import queryshift as qs
from queryshift.models.vision_towers import Slim, every_row, slim

READ_AT_THE_CLASS_TOKEN = [
    "CLIPModel",
    "AltCLIPModel",
    "ChineseCLIPModel",
    "BlipForImageTextRetrieval",
]


def plainly(encoder):
    """The same encoder with its blocks' own forward."""
    for block in encoder.blocks:
        del block.forward
    encoder._generation += 1
    return encoder


def gradients(encoder, items):
    source = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
    vectors = encoder.through(source, encoder.ready(items))
    slopes = torch.linspace(-1, 1, vectors.numel()).view_as(vectors)
    found = torch.autograd.grad((vectors * slopes).sum(), list(source.values()), allow_unused=True)
    return dict(zip(source, found, strict=True))


@pytest.mark.parametrize("architecture", READ_AT_THE_CLASS_TOKEN)
def test_vectors_and_gradients_are_those_of_the_plain_blocks(architecture, checkpoint, items):
    folder = checkpoint(architecture)
    slimmed, plain = qs.load(folder)["image"], plainly(qs.load(folder)["image"])
    assert all(isinstance(block.forward, Slim) for block in slimmed.blocks)
    both = (one.encode(items["image"]) for one in (slimmed, plain))
    assert torch.allclose(*both, atol=1e-6)
    ours, theirs = gradients(slimmed, items["image"]), gradients(plain, items["image"])
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        assert (ours[name] is None) == (gradient is None), name
        assert gradient is None or torch.allclose(ours[name], gradient, atol=1e-5), name


@pytest.mark.parametrize("architecture", READ_AT_THE_CLASS_TOKEN)
def test_the_last_block_computes_one_row_unless_all_are_read(architecture, checkpoint, items):
    encoder = qs.load(checkpoint(architecture))["image"]
    blocks = encoder.replica().module.blocks
    rows = []
    for block in blocks:
        block.register_forward_hook(lambda *run: rows.append(run[-1].shape[1]))
    encoder.encode(items["image"])
    assert rows[-1] == 1 and min(rows[:-1]) > 1
    with every_row(blocks):
        encoder.encode(items["image"])
    assert rows[-1] == rows[0] > 1
    encoder.encode(items["image"])
    assert rows[-1] == 1


@pytest.mark.parametrize("adapt", ["all", "last:1"])
@pytest.mark.parametrize("architecture", READ_AT_THE_CLASS_TOKEN)
def test_patches_are_embedded_once_a_batch(architecture, adapt, checkpoint, items):
    model = qs.load(checkpoint(architecture), adapt=adapt)
    session = qs.Session(
        model["image"], qs.Gallery.build(model["text"], items["text"]), qs.Tent(), lr=0.01
    )
    runs = []
    convolution = session.encoder.replica().module.get_submodule("tower.embeddings.patch_embedding")
    convolution.register_forward_hook(lambda *run: runs.append(1))
    session.answer(items["image"])
    assert session.state.adapted.updates == 3
    assert len(runs) == 1


def test_a_matcher_reads_every_row(checkpoint, items):
    encoder = qs.load(checkpoint("BlipForImageTextRetrieval"))["image"]
    shared = encoder.ready(items["image"])
    vectors, readings = encoder.through_for_matcher(encoder.norm_params(), shared)
    assert readings["tokens"].shape[1] > 1
    assert torch.allclose(vectors, encoder.through(encoder.norm_params(), shared), atol=1e-6)


@pytest.mark.parametrize("architecture", ["CLIPModel", "BlipForImageTextRetrieval"])
def test_less_is_kept_for_the_way_back(architecture, checkpoint, items):
    folder = checkpoint(architecture)

    def kept(encoder):
        held = {}

        def keep(one):
            held[one.untyped_storage().data_ptr()] = one
            return one

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
            gradients(encoder, items["image"])
        weights = {one.untyped_storage().data_ptr() for one in encoder.parameters()}
        return sum(one.untyped_storage().nbytes() for at, one in held.items() if at not in weights)

    assert kept(qs.load(folder)["image"]) < 0.8 * kept(plainly(qs.load(folder)["image"]))


def test_the_cut_and_slim_blocks_go_together(checkpoint, items):
    folder = checkpoint("CLIPModel")
    whole, cut = qs.load(folder)["image"], qs.load(folder, adapt="last:1")["image"]
    assert torch.allclose(whole.encode(items["image"]), cut.encode(items["image"]), atol=1e-6)


def test_blocks_of_another_build_stay_as_they_are():
    blocks = [torch.nn.TransformerEncoderLayer(8, 2), torch.nn.Linear(8, 8)]
    slim(blocks)
    assert not any(isinstance(block.forward, Slim) for block in blocks)
    with every_row(blocks):
        pass


class WithWeights(torch.nn.Module):
    """A block of transformers 4, which gives its rows in a tuple."""

    def __init__(self, block):
        super().__init__()
        self.__dict__["block"] = block
        for name, part in block.named_children():
            setattr(self, name, part)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.FloatTensor]:
        return (self.block(hidden_states, attention_mask=None),)


def test_a_block_that_gives_a_tuple_still_does(checkpoint):
    block = plainly(qs.load(checkpoint("CLIPModel"))["image"]).blocks[0]
    rows = torch.randn(2, 5, block.layer_norm1.weight.shape[0])
    in_tuple = WithWeights(block)
    (expected,) = in_tuple(rows)
    slim([in_tuple])
    assert isinstance(in_tuple.forward, Slim)
    (first,) = in_tuple(rows)  # the last block of a tower: its class token alone
    assert torch.allclose(first, expected[:, :1], atol=1e-6)


@pytest.mark.slow
def test_compiled_blocks_share_their_code(checkpoint, items):
    """Were it compiled anew for each block, torch would give up after eight."""
    encoder = qs.load(checkpoint("CLIPModel"))["image"]
    from torch._dynamo.testing import CompileCounter  # takes seconds to import

    counter = CompileCounter()
    for block in encoder.replica().module.blocks:
        block.compile(backend=counter)
    expected = qs.load(checkpoint("CLIPModel"))["image"].encode(items["image"])
    assert torch.allclose(encoder.encode(items["image"]), expected, atol=1e-6)
    assert counter.frame_count == 2  # all rows, and the class token's alone


def donated_buffer_in_a_fresh_process():
    """The option as torch comes; imported here, it would be there before the encoder needs it."""
    code = "from torch._functorch import config; print(config.donated_buffer)"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # torch's own, while it traces
def test_compiled_towers_adapt_whole_and_in_chunks(checkpoint, items, monkeypatch):
    """With torch's own eager backend behind autograd's tracing: no compiler is needed."""
    plain = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block: plain(block, backend="aot_eager"))
    before = donated_buffer_in_a_fresh_process()
    learnt = []
    for compile, chunk in ((False, None), (True, None), (True, 2)):
        model = qs.load(checkpoint("CLIPModel"), compile=compile)
        gallery = qs.Gallery.build(model["text"], items["text"])
        method = qs.Decoupled(qs.Tent())  # goes back through one graph twice
        session = qs.Session(model["image"], gallery, method, lr=0.01, chunk=chunk)
        session.answer(items["image"])
        session.answer(items["image"])
        learnt.append(session.state.adapted.values)
    assert torch.allclose(learnt[0], learnt[1], atol=1e-4)
    assert torch.allclose(learnt[0], learnt[2], atol=1e-4)
    assert (
        sys.modules["torch._functorch.config"].donated_buffer == before
    )  # the option is set around our runs alone
