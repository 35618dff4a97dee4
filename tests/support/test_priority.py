"""Answers go before updates in the background, and never hold one up for good."""

import threading
import time

import pytest

from queryshift import REST, Session
from queryshift.support import priority
from queryshift.support.priority import answering, is_answering, yield_to_answers, yielding


class Busy(threading.Thread):
    """An update that goes on and on, and yields to answers."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done, self.over = 0, threading.Event()

    def run(self):
        with yielding():
            while not self.over.is_set():
                yield_to_answers()
                self.done += 1
                time.sleep(0.001)

    def moves(self, seconds=0.05):
        """Whether it works within that time, what it was in the middle of aside."""
        before = self.done
        time.sleep(seconds)
        return self.done > before + 1


@pytest.fixture
def busy(monkeypatch):
    """Starts one that waits so many seconds in all."""
    started = []

    def start(seconds):
        monkeypatch.setattr(priority, "MAX_WAIT_S", seconds)
        started.append(Busy())
        started[-1].start()
        time.sleep(0.02)
        return started[-1]

    yield start
    for thread in started:
        thread.over.set()
        thread.join()


def test_an_update_pauses_while_a_query_is_answered(busy):
    update = busy(60)
    assert update.moves()
    with answering():
        with answering():
            assert not update.moves()
        assert not update.moves()  # one of the two is still under way
    assert update.moves()


def test_an_update_pauses_no_longer_than_a_limit_in_all(busy):
    update = busy(0.3)
    for _ in range(3):
        with answering():
            assert not update.moves(0.06)
    with answering():
        time.sleep(0.2)
        assert update.moves()
    with answering():
        assert update.moves()


def test_an_answer_that_fails_no_longer_counts(busy):
    update = busy(60)
    with pytest.raises(ValueError), answering():
        assert not update.moves()
        raise ValueError
    assert update.moves()


def test_an_answer_interrupted_as_it_begins_no_longer_counts(busy, monkeypatch):
    class Interrupted(set):
        def add(self, answer):
            super().add(answer)
            raise KeyboardInterrupt

    monkeypatch.setattr(priority, "_under_way", Interrupted())
    update = busy(60)
    with pytest.raises(KeyboardInterrupt), answering():
        pass
    assert update.moves()


def test_a_forked_process_has_answers_of_its_own(forked):
    """The threads of its parent, which may answer or be about to, are not there."""
    begun, over = threading.Event(), threading.Event()

    def answer_meanwhile():
        with answering(), priority._changed:
            begun.set()
            over.wait()

    def first_answer():
        with answering():
            seen = is_answering()
        return seen and not is_answering()

    parent = threading.Thread(target=answer_meanwhile)
    parent.start()
    begun.wait()
    assert is_answering() and forked(first_answer)
    over.set()
    parent.join()


def test_only_updates_pause():
    with yielding():
        pass
    started = time.perf_counter()
    with answering():
        yield_to_answers()
    assert time.perf_counter() - started < priority.MAX_WAIT_S / 2


@pytest.mark.parametrize("worker", [True, False])
def test_answers_beside_updates_go_first(encoder, gallery, batches, monkeypatch, worker):
    seen, prepare = [], type(encoder).prepare

    def noticed(self, items):
        seen.append(is_answering())
        return prepare(self, items)

    session = Session(encoder, gallery, REST(), gather=64, worker=worker)
    monkeypatch.setattr(type(encoder), "prepare", noticed)
    session.answer(batches[0][:1])
    assert seen == [worker] and not is_answering()


def test_an_update_may_pause_at_every_norm_layer(encoder, gallery, batches, monkeypatch):
    places = []
    name = "queryshift.encoders.frozen_module.yield_to_answers"
    monkeypatch.setattr(name, lambda: places.append(1))
    session = Session(encoder, gallery, REST(), lr=0.01, gather=12, worker=True)
    session.answer(batches[0])
    session.wait()
    norms = len(encoder.norm_params()) // 2
    assert len(places) == norms * 3  # in each step of the update, and never in an answer
