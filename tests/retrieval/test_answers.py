"""Answers that nobody waits for: hits are searched for ahead, and answers are the caller's own."""

import gc
import weakref

import pytest
import torch

from miniature import Toy, same
from queryshift import METHODS, SAR, Gallery, Session, Tent


@pytest.fixture
def searched(monkeypatch):
    """How many hits were searched for, search by search."""
    found, search = [], Gallery.search
    monkeypatch.setattr(Gallery, "search", lambda *a: found.append(a[2]) or search(*a))
    return found


def test_as_many_hits_as_before_are_searched_for_before_the_vectors_are_checked(
    encoder, gallery, batches, searched
):
    session, plain = (Session(encoder, gallery, Tent(), gather=64) for _ in range(2))
    session.answer(batches[0]).top(3)
    answer = session.answer(batches[1])
    assert searched == [3, 3]
    found = answer.top(3)
    assert searched == [3, 3] and same(found, plain.answer(batches[1]).top(3))
    assert answer.top(5).positions.shape == (12, 5) and searched[-1] == 5


def test_many_hits_asked_for_once_are_not_searched_for_ever_after(
    encoder, gallery, batches, searched
):
    session = Session(encoder, gallery, Tent(), gather=64)
    session.answer(batches[0]).top(60)
    for _ in range(2):
        answer = session.answer(batches[1])
        answer.top(3), answer.top(2)
    session.answer(batches[2])
    session.answer(batches[2])  # nothing was asked of the one before
    assert searched == [60, 60, 3, 3]


@pytest.mark.parametrize("name", ["tsa", "tent"])
def test_a_session_keeps_nothing_of_its_answers(encoder, gallery, batches, name):
    session = Session(encoder, gallery.remove(["c0"]), METHODS[name](), gather=64)
    answer = session.answer(batches[0][:3])
    answer.top(2)
    kept = [weakref.ref(one) for one in (session.gallery, answer.gallery, answer)]
    session.gallery = gallery
    del answer
    gc.collect()
    assert [one() for one in kept] == [None] * 3


@pytest.mark.parametrize("mode", ["live", "shadow"])
@pytest.mark.parametrize("score_from", ["before", "last_forward", "after"])
@pytest.mark.parametrize("gather", [None, 12])
def test_an_encoder_may_write_each_result_where_the_last_one_was(
    encoder, gallery, batches, mode, score_from, gather
):
    """As one does that was compiled into CUDA graphs."""

    class Thrifty(Toy):
        place = None

        def forward(self, prepared):
            found = super().forward(prepared)
            if found.requires_grad:
                return found
            self.place = torch.empty_like(found) if self.place is None else self.place
            return self.place.copy_(found)

    settings = {"lr": 0.01, "mode": mode, "score_from": score_from, "gather": gather}
    both = [Session(one, gallery, SAR(), **settings) for one in (Thrifty(), encoder)]
    ours, theirs = ([session.answer(batch) for batch in batches] for session in both)
    assert same([one.vectors for one in ours], [one.vectors for one in theirs])
