"""Reads do not wait for writes, locks are held for moments, and forked children go on."""

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from miniature import Toy, same
from queryshift import REST, Frozen, Gallery, Hubs, Session, Tent

PATIENCE_S = 20


class Gate:
    """Holds a thread at one place until it is opened."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_through(self):
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)


@dataclass(frozen=True, kw_only=True)
class HeldTent(Tent):
    """Tent, whose updates wait at a gate."""

    gate: Gate | None = None

    def loss(self, forward, memory):
        self.gate.pass_through()
        return super().loss(forward, memory)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def adapting(encoder, gallery, batches, gate):
    """A session that another thread is adapting, and that thread's future answer."""
    session = Session(encoder, gallery, HeldTent(gate=gate), lr=0.05)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(session.answer, batches[0])
        assert gate.reached.wait(PATIENCE_S)
        yield session, future
        gate.opened.set()


def within_reach(function):
    """What a function gives on a thread of its own, or an error if it waits."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=PATIENCE_S / 2)


class TestWhileAnotherThreadAdapts:
    def test_reads_answer_with_the_state_in_force(self, adapting, encoder, gallery, batches, gate):
        session, future = adapting
        source = Session(encoder, gallery, Frozen()).answer(batches[1]).top(5)
        answer = within_reach(lambda: session.answer(batches[1], adapt=False).top(5))
        assert same(answer.scores, source.scores) and not future.done()
        gate.opened.set()
        future.result()
        learnt = Session(encoder, gallery, Tent(), lr=0.05)
        learnt.answer(batches[0])
        assert same(session.params, learnt.params)
        assert session.state.batches == 2 and [s.batch for s in session.history] == [1, 2]
        assert [s.adapted for s in session.history] == [False, True]

    def test_it_is_saved_as_it_was_before_the_batch(self, adapting, encoder, gallery, tmp_path):
        session, _ = adapting
        within_reach(lambda: session.save(tmp_path / "state"))
        method = HeldTent(gate=Gate())
        kept = Session.load(tmp_path / "state", encoder, gallery, method=method)
        assert kept.state.batches == 0 and kept.history == []

    def test_many_sessions_are_answered(self, adapting, batches):
        from queryshift import answer_many

        session, _ = adapting
        assert len(within_reach(lambda: answer_many([session], [batches[1]]))[0].top(3)) == 12

    def test_statistics_and_forks_are_to_be_had(self, adapting):
        session, _ = adapting
        assert within_reach(lambda: (session.history, session.fork().state.batches)) == ([], 0)


class SlowToRead(Toy):
    """An encoder that waits at a gate with one query, and not with several."""

    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    def prepare(self, items):
        if len(items) == 1:
            self.gate.pass_through()
        return super().prepare(items)


def test_items_are_read_outside_the_lock(gallery, batches, gate):
    """One query that is slow to read keeps nobody else's from being adapted to."""
    session = Session(SlowToRead(gate), gallery, Tent(), lr=0.05)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(session.answer, batches[0][:1])
        assert gate.reached.wait(PATIENCE_S)
        within_reach(lambda: session.answer(batches[1]))
        assert session.stats().adapted and not slow.done()
        gate.opened.set()


class TestForkedChildren:
    """Forked while another thread is in the middle of a batch."""

    def test_the_same_session_answers_and_adapts(self, adapting, batches, forked):
        session, _ = adapting
        session.method.gate.opened.set()
        assert forked(lambda: len(session.answer(batches[1]).top(3)) == 12)

    def test_the_same_session_is_saved(self, adapting, forked, tmp_path):
        session, _ = adapting
        assert forked(lambda: session.save(tmp_path / "state") is None)
        assert (tmp_path / "state").exists()

    def test_a_new_session_answers(self, adapting, encoder, gallery, batches, forked):
        assert forked(
            lambda: len(Session(encoder, gallery, REST()).answer(batches[1]).top(3)) == 12
        )


def test_answers_at_interpreter_exit_say_what_is_wrong(tmp_path):
    script = tmp_path / "at_exit.py"
    tests = str(Path(__file__).parents[1])
    script.write_text(
        textwrap.dedent(f"""
        import atexit, sys
        sys.path.insert(0, {tests!r})
        from miniature import Toy, items
        from queryshift import Gallery, Session, Tent
        toy = Toy()
        session = Session(toy, Gallery.build(toy, items(20)), Tent(), gather=4, worker=True)
        session.answer(items(4))
        session.wait()

        @atexit.register
        def late():
            try:
                session.answer(items(4))
            except Exception as error:
                print(type(error).__name__, error)
        """)
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert "BadInput the interpreter is shutting down" in ran.stdout, ran.stdout + ran.stderr


def test_a_gallery_is_replaced_between_batches_not_under_one(adapting, clean, encoder, gate):
    session, future = adapting
    fewer = Gallery.build(encoder, clean[:30])
    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(setattr, session, "gallery", fewer)
        assert not replaced.done()
        gate.opened.set()
        replaced.result()
    assert len(future.result().top(60).ids[0]) == 60 and session.gallery is fewer


@pytest.mark.parametrize("adapt", [True, False])
def test_a_gallery_is_replaced_while_queries_are_read(adapt, gallery, batches, gate):
    """They are answered over the gallery they were read for, and nothing is learnt of its rows."""
    session = Session(SlowToRead(gate), gallery, Frozen(), hubs=Hubs())
    session.answer(batches[0])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(session.answer, batches[1][:1], adapt)
        assert gate.reached.wait(PATIENCE_S)
        session.gallery = gallery.remove(gallery.ids[2:])
        bank = session.state.hubs
        gate.opened.set()
        answer = slow.result()
    assert len(answer.top(60).ids[0]) == 60 and session.state.hubs is bank
    assert session.state.batches == 2
    assert session.answer(batches[2]).top(5).positions.shape == (12, 2)


def test_queries_are_gathered_while_the_gallery_is_replaced(gallery, batches, gate):
    """What they left out and is gone need not be left out any more."""
    session = Session(SlowToRead(gate), gallery, Tent(), lr=0.05, gather=12)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(session.answer, batches[0][:1], exclude=[["c50", "c1"]])
        assert gate.reached.wait(PATIENCE_S)
        session.gallery = gallery.remove(["c50"])
        gate.opened.set()
        slow.result()
    session.answer(batches[1][1:])
    assert session.stats().queries == 12
