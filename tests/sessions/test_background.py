"""Adaptation beside the answers: nobody waits, nothing is mixed, nothing is lost in silence."""

import threading
from contextvars import ContextVar
from dataclasses import dataclass

import pytest
import torch

from miniature import Toy, same
from queryshift import REST, Gallery, Session, Tent
from queryshift.errors import BadInput
from queryshift.methods import TCRUntrained


class Gate:
    """Holds updates back until it is opened."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()


@dataclass(frozen=True, kw_only=True)
class Held(Tent):
    """Tent, whose updates wait at a gate."""

    gate: Gate | None = None
    fails: bool = False

    def loss(self, seen, memory):
        self.gate.reached.set()
        assert self.gate.opened.wait(20)
        if self.fails:
            raise RuntimeError("the update broke")
        return super().loss(seen, memory)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()  # whatever a test does, the thread that all share goes on


@pytest.fixture
def held(encoder, gallery, gate):
    return Session(encoder, gallery, Held(gate=gate), lr=0.01, gather=12, worker=True)


def finish(session, gate):
    gate.opened.set()
    session.wait()


def test_waited_for_it_learns_what_it_learns_in_turn(encoder, gallery, batches):
    beside, in_turn = (
        Session(encoder, gallery, REST(), lr=0.01, gather=12, worker=w) for w in (True, False)
    )
    for batch in batches:
        for query in batch:
            assert same(beside.answer([query]).top(3), in_turn.answer([query]).top(3))
        beside.wait()
    assert same((beside.state, beside.history), (in_turn.state, in_turn.history))
    assert beside.dropped == 0


def test_the_query_that_completes_a_group_does_not_wait(held, gate, batches):
    source = held.fork().answer(batches[1], adapt=False).top(3)
    held.answer(batches[0])  # returns while the update is held back
    assert gate.reached.wait(20)
    assert held.history == [] and held.state.adapted.updates == 0
    assert same(held.answer(batches[1][:5]).top(3).positions, source.positions[:5])
    finish(held, gate)
    assert [one.queries for one in held.history] == [12]
    assert held.state.adapted.updates == 3
    assert not same(held.answer(batches[1], adapt=False).vectors, source.vectors)


def test_a_group_is_dropped_and_counted_while_an_update_runs(held, gate, batches):
    held.answer([query for batch in batches[:3] for query in batch])
    held.answer(batches[3])
    assert held.dropped == 3
    finish(held, gate)
    held.answer(batches[4])
    held.wait()
    assert held.dropped == 3
    assert [one.batch for one in held.history] == [1, 2]


def test_answers_beside_an_update_are_counted_before_it(held, gate, batches):
    held.answer(batches[0])
    held.answer(batches[1], adapt=False)
    finish(held, gate)
    assert [(one.batch, one.adapted) for one in held.history] == [(1, False), (2, True)]
    assert held.state.batches == 2
    assert held.dropped == 0


@pytest.mark.parametrize("how", ["reset", "undo", "restore", "gallery"])
def test_an_update_is_dropped_when_the_session_was_moved_under_it(
    held, gate, batches, how, gallery
):
    gate.opened.set()
    held.answer(batches[0])
    held.wait()
    gate.opened.clear(), gate.reached.clear()
    source = held.fork()
    source.reset()
    held.answer(batches[1])
    assert gate.reached.wait(20)
    moves = {
        "reset": held.reset,
        "undo": held.undo,
        "restore": lambda: held.restore(source.state),
        "gallery": lambda: setattr(held, "gallery", gallery.remove(["c0"])),
    }
    moves[how]()
    before = held.state
    finish(held, gate)
    assert held.state is before
    assert held.dropped == 1


@pytest.mark.parametrize("how", ["undo", "restore"])
def test_a_method_without_parameters_is_undone_too(encoder, gallery, batches, gate, how):
    @dataclass(frozen=True, kw_only=True)
    class HeldMemory(TCRUntrained):
        def gradient(self, look, memory):
            gate.reached.set()
            assert gate.opened.wait(20)
            return super().gradient(look, memory)

    session = Session(encoder, gallery, HeldMemory(), gather=12, worker=True)
    source = session.state
    gate.opened.set()
    session.answer(batches[0])
    session.wait()
    gate.opened.clear(), gate.reached.clear()
    session.answer(batches[1])
    assert gate.reached.wait(20)
    session.undo() if how == "undo" else session.restore(source)
    finish(session, gate)
    assert session.state is source
    assert session.dropped == 1


def test_save_and_fork_take_the_state_in_force(held, gate, batches, encoder, gallery, tmp_path):
    held.answer(batches[0])
    assert gate.reached.wait(20)
    held.save(tmp_path / "kept")
    twin = held.fork()
    finish(held, gate)
    kept = Session.load(tmp_path / "kept", encoder, gallery, Held(gate=gate))
    assert kept.settings.worker
    for early in (twin, kept):
        assert (early.state.batches, early.history, early.dropped) == (0, [], 0)
    twin.answer(batches[0])  # its own update, as the first session's: it starts where that did
    twin.wait()
    assert same(twin.state, held.state)
    held.undo()
    assert held.state.batches == 0


@pytest.mark.parametrize("notice", ["wait", "answer"])
def test_what_goes_wrong_is_raised_once_and_the_session_goes_on(
    encoder, gallery, batches, gate, notice
):
    gate.opened.set()
    broken = Held(gate=gate, fails=True)
    session = Session(encoder, gallery, broken, gather=12, worker=True)
    session.answer(batches[0])
    session._updater.worker.wait()
    with pytest.raises(RuntimeError, match="the update broke") as caught:
        session.wait() if notice == "wait" else session.answer(batches[1][:1])
    assert "in the background" in caught.value.__notes__[0]
    assert session.state.batches == 0 and session._updater.gathered == []
    assert len(session.answer(batches[1][:3]).top(1)) == 3


def test_sessions_take_turns_on_one_thread(encoder, gallery, batches):
    sessions = [Session(encoder, gallery, REST(), lr=0.01, gather=12, worker=True) for _ in "abcd"]
    for session in sessions:
        session.answer(batches[0])
    for session in sessions:
        session.wait()
    alone = Session(encoder, gallery, REST(), lr=0.01, gather=12)
    alone.answer(batches[0])
    assert all(same(session.state, alone.state) for session in sessions)
    names = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("queryshift-worker") for name in names) == 1


def test_a_forked_session_does_not_wait_for_its_parents_update(held, gate, batches, forked):
    held.answer(batches[0])
    assert gate.reached.wait(20)

    def adapts():
        held.wait()
        gate.opened = threading.Event()  # the parent's thread may hold the old one's lock
        gate.opened.set()
        held.answer(batches[1])
        held.wait()
        return held.dropped == 0 and [one.queries for one in held.history] == [12]

    assert forked(adapts)
    finish(held, gate)


def test_many_threads_may_ask_while_it_adapts(encoder, gallery, batches):
    session = Session(encoder, gallery, REST(), lr=0.01, gather=12, worker=True)

    def ask():
        for batch in batches:
            for query in batch:
                session.answer([query]).top(1)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.wait()
    assert len(session.history) + session.dropped == 3 * 60 // 12
    assert session.state.batches == len(session.history) >= 1


def test_what_the_caller_configured_holds_for_the_update(encoder, gallery, batches, monkeypatch):
    configured, seen = ContextVar("configured", default="no"), []
    loss = Tent.loss
    monkeypatch.setattr(Tent, "loss", lambda *a: seen.append(configured.get()) or loss(*a))
    session = Session(encoder, gallery, Tent(), lr=0.01, gather=12, worker=True)
    configured.set("yes")
    session.answer(batches[0])
    session.wait()
    assert set(seen) == {"yes"}


@pytest.mark.parametrize("worker", [True, False])
def test_an_encoder_may_be_compiled_by_its_user(encoder, clean, batches, worker):
    class Compiled(Toy):
        def __init__(self):
            super().__init__()
            self.first = torch.compile(self.first, backend="aot_eager")  # all but the code itself

    both = [
        Session(one, Gallery.build(one, clean), REST(), lr=0.01, gather=12, worker=worker)
        for one in (Compiled(), encoder)
    ]
    for batch in batches[:2]:  # of another size than the gallery's: compiled for any size
        ours, theirs = (session.answer(batch).vectors for session in both)
        assert torch.allclose(ours, theirs, atol=1e-5)
        both[0].wait(), both[1].wait()
    assert len(both[0].history) == 2


def test_in_shadow_mode_the_source_answers(encoder, gallery, batches):
    session = Session(encoder, gallery, REST(), lr=0.05, gather=12, worker=True, mode="shadow")
    for batch in batches:
        expected = gallery.search(encoder.encode(batch), 3)
        assert same(session.answer(batch).top(3).positions, expected.positions)
        session.wait()
    assert session.stats().disagreement is not None


def test_it_needs_something_to_gather(encoder, gallery):
    with pytest.raises(BadInput, match="gather is None: say how many to gather"):
        Session(encoder, gallery, Tent(), worker=True)


def test_nothing_to_wait_for(encoder, clean):
    Session(encoder, Gallery.build(encoder, clean), Tent()).wait()
