"""Answers that nobody waits for: hits are searched for ahead, and answers are the caller's own."""

import gc
import weakref

import pytest
import torch

from miniature import DIMENSION, Toy, same
from queryshift import METHODS, SAR, Frozen, Gallery, Session, Tent
from queryshift.errors import BadInput


@pytest.fixture
def searched(monkeypatch):
    """How many hits were searched for, search by search."""
    found, search = [], Gallery.search
    monkeypatch.setattr(Gallery, "search", lambda *a: found.append(a[2]) or search(*a))
    return found


def test_an_answer_searches_when_hits_are_asked_for_and_no_deeper(
    encoder, gallery, batches, searched
):
    session = Session(encoder, gallery, Tent(), gather=64)
    answer = session.answer(batches[0])
    assert searched == []
    first = answer.top(3)
    assert searched == [3] and same(answer.top(2), first.top(2)) and searched == [3]
    assert answer.top(5).positions.shape == (12, 5) and searched == [3, 5]


def test_many_hits_cost_no_vectors(encoder, gallery, batches, monkeypatch):
    fetched, plain = [], Gallery.vectors_at
    monkeypatch.setattr(Gallery, "vectors_at", lambda *a: fetched.append(a[1].shape) or plain(*a))
    hits = Session(encoder, gallery, Frozen()).answer(batches[0], adapt=False).top(10**6)
    fetched.clear()
    assert hits.ids[0][0] == gallery.ids[int(hits.positions[0, 0])] and fetched == []
    assert hits.vectors.shape == (12, len(gallery), 1, DIMENSION) and len(fetched) == 1


class TestAnswer:
    def test_the_source_is_what_a_frozen_session_answers(self, encoder, gallery, batches):
        session, frozen = (Session(encoder, gallery, m, lr=0.05) for m in (Tent(), Frozen()))
        for batch in batches[:3]:
            answer, expected = session.answer(batch), frozen.answer(batch).top(7)
            assert same(answer.source.top(7).positions, expected.positions)
            assert answer.source.source is answer.source
        assert not same(answer.top(7).scores, expected.scores)

    def test_a_shadow_has_what_it_would_answer_beside_it(self, encoder, gallery, batches):
        shadow = Session(encoder, gallery, Tent(), lr=0.05, mode="shadow")
        live, frozen = (Session(encoder, gallery, m, lr=0.05) for m in (Tent(), Frozen()))
        for batch in batches[:3]:
            answer = shadow.answer(batch)
            assert same(answer.top(5).scores, frozen.answer(batch).top(5).scores)
            assert same(answer.adapted.top(5).scores, live.answer(batch).top(5).scores)
        assert answer.source is answer and live.answer(batch).adapted is not answer

    def test_its_scores_are_in_its_own_order(self, encoder, gallery, batches):
        answer = Session(encoder, gallery, Frozen()).answer(batches[0], exclude=["c1"] * 12)
        order = answer.scores().argsort(dim=1, descending=True)[:, :9]
        assert same(order, answer.top(9).positions)
        assert (answer.scores()[:, 1] == -torch.inf).all()

    def test_it_prints_on_a_line(self, encoder, gallery, batches):
        answer = Session(encoder, gallery, Frozen()).answer(batches[0])
        assert repr(answer) == f"Answer(12 queries, {len(gallery)} candidates)"
        with pytest.raises(BadInput, match=r"answer.top\(10\).ids\[row\]"):
            answer[0]


@pytest.mark.parametrize("name", ["tsa", "tent"])
def test_a_session_keeps_nothing_of_its_answers(encoder, gallery, batches, name):
    session = Session(encoder, gallery.remove(["c0"]), METHODS[name](), gather=64)
    answer = session.answer(batches[0][:3])
    answer.top(2)
    kept = [weakref.ref(one) for one in (session.gallery, answer._forward)]
    session.gallery = gallery
    del answer
    gc.collect()
    assert [one() for one in kept] == [None] * 2


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
