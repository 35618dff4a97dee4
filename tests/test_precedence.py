"""Answers go before updates in the background, and never hold one up for good."""

import threading
import time

import pytest
import torch

from queryshift import REST, Session, precedence
from queryshift.precedence import ANSWERS, GivingWay, Precedence


class Busy(threading.Thread):
    """Calls torch again and again, giving way."""

    def __init__(self):
        super().__init__(daemon=True)
        self.calls, self.over = 0, threading.Event()

    def run(self):
        with GivingWay():
            while not self.over.is_set():
                torch.zeros(1)
                self.calls += 1

    def moves(self, seconds=0.05):
        """Whether it calls torch within that time, what it was in the middle of aside."""
        before = self.calls
        time.sleep(seconds)
        return self.calls > before + 1


@pytest.fixture
def busy(monkeypatch):
    monkeypatch.setattr(precedence, "PATIENCE", 60)
    thread = Busy()
    thread.start()
    yield thread
    thread.over.set()
    thread.join()


def test_an_update_pauses_while_somebody_is_answered(busy):
    assert busy.moves()
    with ANSWERS.answering():
        with ANSWERS.answering():
            assert not busy.moves()
        assert not busy.moves()  # one of the two is still under way
    assert busy.moves()


def test_an_update_is_patient_for_so_long_in_all(monkeypatch):
    monkeypatch.setattr(precedence, "PATIENCE", 0.3)
    patient = Busy()
    patient.start()
    for _ in range(3):
        with ANSWERS.answering():
            assert not patient.moves(0.06)
    with ANSWERS.answering():
        time.sleep(0.2)
        assert patient.moves()
    with ANSWERS.answering():
        assert patient.moves()
    patient.over.set()
    patient.join()


def test_an_answer_that_fails_no_longer_counts():
    answers = Precedence()
    with pytest.raises(ValueError), answers.answering():
        assert answers.give_way(0.01) >= 0.01
        raise ValueError
    assert answers.give_way(60) == 0


@pytest.mark.parametrize("worker", [True, False])
def test_answers_beside_updates_go_first(encoder, gallery, batches, monkeypatch, worker):
    seen, prepare = [], type(encoder).prepare

    def noticed(self, items):
        seen.append(ANSWERS._nobody.is_set())
        return prepare(self, items)

    session = Session(encoder, gallery, REST(), gather=64, worker=worker)
    monkeypatch.setattr(type(encoder), "prepare", noticed)
    session.answer(batches[0][:1])
    assert seen == [not worker] and ANSWERS._nobody.is_set()
