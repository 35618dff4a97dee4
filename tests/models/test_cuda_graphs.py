"""Recorded forwards: when they are made, and that they give what a plain run gives.

A CPU has no CUDA graphs, so "playing" here runs the recorded work again into the same tensors,
which is what a graph does; `tests/test_on_a_gpu.py` has the real ones.
"""

import gc
import threading
import weakref

import pytest
import torch

from queryshift import METHODS, REST, SAR, Decoupled, Gallery, Session, Tent, load
from queryshift.errors import BadInput
from queryshift.lab.datasets.tangram import tangram
from queryshift.models import cuda_graphs
from queryshift.support.priority import answering, this_thread, yielding
from queryshift.support.threads import working


class Recorder:
    """Stands in for CUDA graphs, and counts."""

    def __init__(self):
        self.made, self.played = 0, 0

    def record(self, work, pool=None, first=False):
        self.made += 1
        assert first == (not torch.is_grad_enabled())
        found, graph = work(), torch.is_grad_enabled()

        def play():
            self.played += 1
            with torch.set_grad_enabled(graph):
                found.data.copy_(work().detach())

        return found, play, pool


@pytest.fixture
def recorder(monkeypatch):
    found = Recorder()
    monkeypatch.setattr(cuda_graphs, "record", found.record)
    monkeypatch.setattr(cuda_graphs, "aside", lambda work: work())
    return found


@pytest.fixture(scope="module")
def world():
    return tangram("image", count=64)


@pytest.fixture(scope="module")
def gallery(world):
    return Gallery.build(load("tangram")["text"], world.candidates)


@pytest.fixture
def encoder():
    found = load("tangram")["image"]
    found.cuda_graphs = True
    return found


def seen(encoder, items, gain=1.0):
    source = encoder.norm_params()
    params = {name: (value * gain).requires_grad_() for name, value in source.items()}
    return params, encoder.through(params, encoder.ready(items))


def gradient(params, vectors):
    slopes = torch.linspace(-1, 1, vectors.numel()).view_as(vectors)
    along = (vectors * slopes).sum()
    found = torch.autograd.grad(along, list(params.values()), retain_graph=True, allow_unused=True)
    return torch.cat([one.flatten() for one in found if one is not None])


@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize(
    "method", [REST(), REST(decouple=True), SAR(), Decoupled(Tent())], ids=lambda m: m.name
)
def test_a_session_learns_and_answers_the_same(recorder, encoder, gallery, world, method, chunk):
    plain = load("tangram")["image"]
    both = [Session(one, gallery, method, lr=1e-3, chunk=chunk) for one in (encoder, plain)]
    for start in range(0, 48, 8):
        batch = world.queries[start : start + 8]
        ours, theirs = (session.answer(batch) for session in both)
        assert torch.equal(ours.vectors, theirs.vectors)
    assert torch.equal(*(session.state.adapted.values for session in both))
    assert recorder.made >= 2 and recorder.played > recorder.made


def test_shapes_are_recorded_when_they_come_the_third_time(recorder, encoder, world):
    for times in range(1, 5):
        encoder.encode(world.queries[:2])
        assert recorder.made == (times >= cuda_graphs.RECORDED_AT)
    encoder.encode(world.queries[:3])
    assert recorder.made == 1


def test_nothing_is_recorded_while_another_thread_works(recorder, encoder, world):
    begun, over = threading.Event(), threading.Event()

    def work():
        with working():
            begun.set()
            over.wait(20)

    other = threading.Thread(target=work)
    other.start()
    begun.wait(20)
    plain = load("tangram")["image"].encode(world.queries[:2])
    for _ in range(cuda_graphs.RECORDED_AT):
        assert torch.equal(encoder.encode(world.queries[:2]), plain)
    over.set()
    other.join()
    assert recorder.made == 0
    for times in range(1, 4):  # seen as often again
        encoder.encode(world.queries[:2])
        assert recorder.made == (times >= cuda_graphs.RECORDED_AT)


def test_recording_never_pauses_and_destroys_nothing(encoder, world, recorder, monkeypatch):
    seen = []

    def record(*given, **named):
        seen.append((this_thread.wait_left, gc.isenabled()))
        return recorder.record(*given, **named)

    monkeypatch.setattr(cuda_graphs, "record", record)
    with yielding(), answering():
        for _ in range(cuda_graphs.RECORDED_AT):
            encoder.encode(world.queries[:2])
    assert seen == [(0, False)] and gc.isenabled()


def test_large_batches_are_never_recorded(recorder, encoder, world, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "LARGEST", 4)
    for size in (4, 5):
        for _ in range(cuda_graphs.RECORDED_AT):
            encoder.encode(world.queries[:size])
    assert recorder.made == 1


def test_the_longest_unused_shape_makes_way(recorder, encoder, world):
    for size in range(1, cuda_graphs.KEPT + 2):
        for _ in range(cuda_graphs.RECORDED_AT):
            encoder.encode(world.queries[:size])
    assert recorder.made == cuda_graphs.KEPT + 1
    encoder.encode(world.queries[: cuda_graphs.KEPT + 1])
    assert recorder.made == cuda_graphs.KEPT + 1
    encoder.encode(world.queries[:1])
    assert recorder.made == cuda_graphs.KEPT + 2


def test_who_goes_back_late_gets_the_gradient_of_his_own_forward(recorder, encoder, world):
    items = world.queries[:4]
    for _ in range(cuda_graphs.RECORDED_AT):
        seen(encoder, items)
    early, late = seen(encoder, items), seen(encoder, items[::-1], gain=1.1)
    plain = load("tangram")["image"]
    assert torch.equal(gradient(*early), gradient(*seen(plain, items)))
    assert torch.equal(gradient(*late), gradient(*seen(plain, items[::-1], gain=1.1)))
    assert torch.equal(gradient(*late), gradient(*late))


def test_results_are_the_callers_own(recorder, encoder, world):
    found = [encoder.encode(world.queries[i : i + 2]) for i in range(0, 12, 2)]
    again = load("tangram")["image"].encode(world.queries[:12])
    assert torch.allclose(torch.cat(found), again, atol=1e-6)


def test_recordings_go_with_their_encoder(recorder, encoder, world):
    for _ in range(cuda_graphs.RECORDED_AT):
        encoder.encode(world.queries[:2])
    (kept,) = cuda_graphs._known[encoder.replica()]._kept.values()
    gone = weakref.ref(kept)
    del kept
    encoder.to("cpu")  # moved: other replicas, other recordings
    encoder.encode(world.queries[:2])
    gc.collect()
    assert gone() is None


def test_what_cannot_be_recorded_is_said(encoder, world, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(cuda_graphs, "record", fails)
    monkeypatch.setattr(cuda_graphs, "aside", lambda work: work())
    with pytest.raises(BadInput, match=r"without `cuda_graphs`.*not permitted when stream"):
        for _ in range(cuda_graphs.RECORDED_AT):
            encoder.encode(world.queries[:2])


def test_a_model_on_the_cpu_is_refused():
    with pytest.raises(BadInput, match=r"cuda_graphs needs a GPU, this model is on cpu"):
        load("tangram", device="cpu", cuda_graphs=True)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_recordings(recorder, encoder, gallery, world, name):
    session = Session(encoder, gallery, METHODS[name](), lr=1e-3)
    for _ in range(3):
        session.answer(world.queries[:8])
    assert torch.isfinite(session.state.adapted.values).all()
