"""Savings that change no number: each beside the plain way of computing the same."""

import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from miniature import Toy, same
from queryshift import REST, TCR, Gallery, Guard, Session, Tent, load
from queryshift.lab.tangram.towers import Block
from queryshift.retrieval.forward import Batch


def test_a_product_is_the_one_torch_takes_with_slopes(encoder, gallery, batches):
    batch = Batch(encoder, gallery, encoder.ready(batches[0]))
    source = encoder.norm_params()
    seen = batch.forward(source, graph=True)
    slope = torch.randn(seen.vectors.shape, generator=torch.Generator().manual_seed(0))
    (pulled,) = seen.gradients((seen.vectors * slope).sum())
    leaves = {name: value.clone().requires_grad_() for name, value in source.items()}
    vectors = encoder.through(leaves, batch.shared)
    plain = torch.autograd.grad(vectors, tuple(leaves.values()), slope, allow_unused=True)
    expected = {n: g for n, g in zip(leaves, plain, strict=True) if g is not None}
    assert same(pulled, expected)


def test_the_first_update_imports_no_symbolic_algebra():
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from miniature import Toy, items, shifted
from queryshift import REST, Gallery, Session
toy = Toy()
session = Session(toy, Gallery.build(toy, items(30)), REST())
session.answer(shifted(items(12)))
assert session.state.adapted.updates == 3
print([name for name in ("sympy", "transformers", "torch._dynamo") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["image", "text"])
def test_the_last_block_of_tangram_towers_computes_the_class_token_alone(name, monkeypatch):
    encoder = load("tangram")[name]
    noise = torch.Generator().manual_seed(0)
    pictures = torch.randint(256, (3, 64, 64, 3), dtype=torch.uint8, generator=noise)
    items = {"image": list(pictures.numpy())}
    items["text"] = ["a red square", "two blue circles left of a green triangle", "one"]
    rows = []
    plain = Block.forward

    def watched(block, *args):
        found = plain(block, *args)
        rows.append(found.shape[1])
        return found

    monkeypatch.setattr(Block, "forward", watched)
    short = encoder.encode(items[name])
    assert rows[-1] == 1 and min(rows[:-1]) > 1
    monkeypatch.setattr(Block, "forward", lambda b, r, m=None, only=None, o=None: plain(b, r, m))
    whole = encoder.encode(items[name])
    assert torch.allclose(short, whole, atol=1e-6)


def test_other_weights_of_the_same_shape_go_the_plain_way(encoder, batches, monkeypatch):
    """One session alone pays nothing for the norm layers' second path."""
    called = []
    plain = nn.functional.layer_norm
    toy = Toy()
    monkeypatch.setattr(
        "queryshift.encoders.frozen_module.layer_norm",
        lambda *a, **k: called.append(1) or plain(*a, **k),
    )
    shared = toy.ready(batches[0])
    source = toy.norm_params()
    alone = toy.through(source, shared)
    assert called == []
    each = {name: value.expand(len(batches[0]), *value.shape) for name, value in source.items()}
    assert torch.allclose(toy.through(each, shared), alone, atol=1e-6)
    assert len(called) == 2


def test_no_search_is_done_twice_for_one_forward(encoder, clean, batches, monkeypatch):
    gallery = Gallery.build(encoder, clean)
    gallery.centroids(10)
    searched = []
    plain = gallery.search
    monkeypatch.setattr(gallery, "search", lambda *a: searched.append(1) or plain(*a))
    session = Session(encoder, gallery, REST(), lr=0.01)
    session.answer(batches[0]).top(10)
    assert len(searched) == 4  # three steps, and the last once more: an answer looks further


@pytest.mark.parametrize("method", [REST(), REST(decouple=True), Tent(), TCR()])
def test_one_graph_is_alive_at_a_time(encoder, gallery, batches, method, monkeypatch):
    alive = []
    plain = Batch.forward

    def watched(batch, params, graph):
        assert not (graph and any(one() for one in alive)), "the last step's graph is still held"
        seen = plain(batch, params, graph)
        if graph:
            alive.append(ref(seen.backward))
        return seen

    monkeypatch.setattr(Batch, "forward", watched)
    session = Session(encoder, gallery, method, lr=0.01)
    held = [session.answer(batch) for batch in batches[:2]]
    assert len(alive) == 6 and len(held) == 2
    assert not any(one() for one in alive)


class Waits(TorchFunctionMode):
    """Counts calls that have the host wait for what a device computes."""

    NAMES = ("item", "tolist", "numpy", "cpu", "nonzero", "unique", "masked_select")
    NUMBERS = ("__bool__", "__float__", "__int__", "__index__")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = (resolve_name(func) or "").rsplit(".", 1)[-1]
        self.count += name in self.NAMES + self.NUMBERS
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", [REST(), REST(decouple=True), TCR()], ids=lambda m: m.name)
def test_nobody_waits_for_the_device_element_by_element(encoder, gallery, batches, method):
    counts = []
    for size in (4, 12):
        session = Session(encoder, gallery, method, lr=0.01, guard=None)
        session.answer(batches[0][:size])  # centroids are made once, and wait
        with Waits() as waits:
            for batch in batches[1:3]:
                session.answer(batch[:size])
        counts.append(waits.count)
    assert counts[0] == counts[1] <= 2 * 5


@pytest.mark.parametrize("method", [REST(), TCR()], ids=lambda m: m.name)
def test_a_guard_waits_for_the_device_three_times_a_batch(encoder, gallery, batches, method):
    counts = []
    for guard in (None, Guard()):
        session = Session(encoder, gallery, method, lr=0.01, guard=guard)
        session.answer(batches[0])
        with Waits() as waits:
            for batch in batches[1:3]:
                session.answer(batch)
        assert session.stats().adapted
        counts.append(waits.count)
    assert counts[1] <= counts[0] + 3 * 2
