"""What only a GPU can show: compiled and recorded towers, half precision, updates on a stream."""

import faulthandler
import threading
import time
from itertools import cycle

import pytest
import torch

from queryshift import REST, SAR, Gallery, Session, load
from queryshift.lab.corruptions import find
from queryshift.lab.datasets.tangram import tangram
from queryshift.lab.evaluation.stream_evaluation import run, shifted

# compiling warns of torch's own old parts and of products that could be coarser: no errors of ours
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

THREADS = 8
UPDATES = 1_000  # of each kind, recorded and not
COMPARED = 5  # updates: later ones of two runs drift apart by rounding
LIMIT_S = 240


@pytest.fixture(scope="module")
def world():
    return tangram("image", count=256)


def recall(world, queries, **settings):
    model = load("tangram", device="cuda", **settings)
    gallery = Gallery.build(model["text"], world.candidates)
    session = Session(model["image"], gallery, REST())
    return run(session, queries, world.matches).recall(1), session


def test_half_precision_and_compilation_change_recall_by_little(world):
    queries = shifted(world, find("image", "gaussian_noise"), 3)
    whole, _ = recall(world, queries, precision="float32")
    half, session = recall(world, queries)
    compiled, _ = recall(world, queries, compile=True)
    assert {value.dtype for value in session.params.values()} == {torch.float32}
    assert abs(whole - half) < 2 and abs(whole - compiled) < 2


@pytest.mark.parametrize("settings", [{}, {"chunk": 16}], ids=["whole", "chunks"])
@pytest.mark.parametrize("method", [REST(), REST(decouple=True), SAR()], ids=lambda m: m.name)
def test_recorded_forwards_learn_what_plain_ones_learn(world, method, settings):
    plain, recorded = (
        load("tangram", device="cuda", precision="float32", cuda_graphs=graphs)
        for graphs in (False, True)
    )
    gallery = Gallery.build(plain["text"], world.candidates)
    queries = shifted(world, find("image", "gaussian_noise"), 3)
    both = [
        Session(model["image"], gallery, method, lr=1e-3, **settings) for model in (plain, recorded)
    ]
    for start in range(0, 256, 64):
        vectors = [session.answer(queries[start : start + 64]).vectors for session in both]
        assert torch.allclose(*vectors, atol=1e-4)
    learnt = [session.state.adapted.values for session in both]
    moved = (learnt[0] - Session(plain["image"], gallery, method).state.adapted.values).norm()
    assert (learnt[0] - learnt[1]).norm() < 0.05 * moved


def test_half_compiled_and_recorded_at_once(world):
    queries = shifted(world, find("image", "gaussian_noise"), 3)
    whole, _ = recall(world, queries, precision="float32")
    fast, _ = recall(world, queries, compile=True, cuda_graphs=True)
    assert abs(whole - fast) < 2


@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "recorded"])
def test_an_update_beside_the_answers_learns_what_it_learns_in_turn(world, graphs):
    model = load("tangram", device="cuda", precision="float32", cuda_graphs=graphs)
    gallery = Gallery.build(model["text"], world.candidates)
    settings = {"gather": 16, "lr": 1e-3}
    beside, in_turn = (
        Session(model["image"], gallery, REST(), worker=worker, **settings)
        for worker in (True, False)
    )
    for query in world.queries[:160]:
        beside.answer([query])
        in_turn.answer([query])
        beside.wait()
    assert beside.dropped == 0 and len(beside.history) == 10
    assert torch.allclose(beside.state.adapted.values, in_turn.state.adapted.values, atol=1e-6)


def test_answers_during_updates_come_from_a_state_that_was_in_force(world):
    """Nothing half-written is ever read: every answer is finite and of unit length."""
    model = load("tangram", device="cuda", cuda_graphs=True)
    gallery = Gallery.build(model["text"], world.candidates)
    session = Session(model["image"], gallery, REST(), gather=8, worker=True, lr=1e-3)
    until = time.monotonic() + 60
    for query in cycle(world.queries):
        vectors = session.answer([query]).vectors
        assert torch.allclose(vectors.norm(dim=1).cpu(), torch.ones(1), atol=1e-3)
        if len(session.history) > 3 or time.monotonic() > until:
            break
    session.wait()
    assert len(session.history) > 3


@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "recorded"])
def test_eight_threads_adapt_at_once(world, graphs, tmp_path):
    """Sessions of one encoder, every second one with updates in the background."""
    plain, shared = (
        load("tangram", device="cuda", precision="float32", cuda_graphs=recorded)["image"]
        for recorded in (False, graphs)
    )
    gallery = Gallery.build(load("tangram", device="cuda")["text"], world.candidates)
    source = Session(plain, gallery, REST()).state.adapted.values

    def adapts(number):
        size, worker = 5 + number % 4, number % 2 == 1
        batches = [world.queries[start : start + size] for start in range(0, 160, size)]
        alone = Session(plain, gallery, REST(), lr=1e-3)
        session = Session(shared, gallery, REST(), lr=1e-3, gather=size, worker=worker)
        expected = learnt_alone(alone, batches[:COMPARED])

        def work():
            for done, batch in zip(range(1, UPDATES // THREADS + 1), cycle(batches), strict=False):
                for queries in [[query] for query in batch] if worker else [batch]:
                    lengths = session.answer(queries).vectors.norm(dim=1).cpu()
                    assert torch.allclose(lengths, torch.ones(len(queries)), atol=1e-3)
                session.wait()
                assert len(session.history) == done and session.dropped == 0
                if done == COMPARED:
                    apart = (session.state.adapted.values - expected).norm()
                    assert apart < 0.05 * (expected - source).norm()

        return work

    in_threads([adapts(number) for number in range(THREADS)], tmp_path / "stacks.txt")


def learnt_alone(session, batches):
    for batch in batches:
        session.answer(batch)
    return session.state.adapted.values


def in_threads(works, stacks):
    """Run each in a thread of its own; where they hang, end the run with the stacks of all."""
    errors = []

    def watched(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=watched, args=(work,), daemon=True) for work in works]
    faulthandler.dump_traceback_later(LIMIT_S + 30, exit=True)  # whoever waits, with Python's lock
    for thread in threads:
        thread.start()
    until = time.monotonic() + LIMIT_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        with stacks.open("w+") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            pytest.exit(f"threads still ran after {LIMIT_S} s:\n{file.read()}", returncode=1)
    faulthandler.cancel_dump_traceback_later()
    assert errors == []
