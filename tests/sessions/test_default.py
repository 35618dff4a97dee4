"""A session without a method: what it is made of, and that everybody else names theirs."""

import pytest
import torch

from queryshift import REST, Frozen, Gallery, Guard, Hubs, InfoMax, Session, Vectors
from toy import ToyEncoder, toy_gallery, toy_queries


@pytest.fixture
def encoder():
    return ToyEncoder()


@pytest.fixture
def gallery(encoder):
    return toy_gallery(encoder, 40)


def test_is_infomax_with_hubs_and_a_guard(encoder, gallery):
    session = Session(encoder, gallery)
    assert isinstance(session.method, InfoMax)
    assert session.settings.hubs == Hubs() and session.settings.guard == Guard()
    assert session.settings.score_from == "after"


def test_what_is_said_wins(encoder, gallery):
    said = {"hubs": None, "guard": Guard(spread=0.1), "score_from": "before", "lr": 0.5}
    session = Session(encoder, gallery, **said)
    assert session.settings.hubs is None and session.settings.guard == Guard(spread=0.1)
    assert session.settings.score_from == "before" and session.method.lr == 0.5


def test_without_a_guard_it_is_the_bare_method(encoder, gallery):
    session = Session(encoder, gallery, guard=None)
    assert session.settings.hubs is None and session.settings.guard is None
    assert Session(encoder, gallery, guard=None, hubs=Hubs(bank=9)).settings.hubs == Hubs(bank=9)


def test_queries_that_are_vectors_are_left_as_they_are():
    gallery = Gallery.from_vectors(["north", "east"], [[0.0, 1.0], [1.0, 0.0]])
    session = Session(Vectors(2), gallery)
    assert isinstance(session.method, Frozen) and session.settings.hubs == Hubs()
    assert session.answer([[0.2, 3.0]]).top(1).ids == [["north"]]


def test_a_named_method_brings_nothing_else(encoder, gallery):
    settings = Session(encoder, gallery, REST()).settings
    assert (settings.hubs, settings.guard) == (None, Guard())
    assert settings.score_from == "last_forward"


def test_a_shadow_shows_what_a_live_session_answers(encoder, gallery):
    live, shadow = (Session(encoder, gallery, lr=0.05, mode=mode) for mode in ("live", "shadow"))
    differs = False
    for batch in toy_queries(4, 16, 40):
        answer, beside = live.answer(batch), shadow.answer(batch)
        assert torch.equal(beside.adapted.top(5).scores, answer.top(5).scores)
        differs |= not torch.equal(beside.top(5).scores, answer.top(5).scores)
    assert differs


def test_forks_and_files_keep_it(encoder, gallery, tmp_path):
    session = Session(encoder, gallery)
    first, second, third = toy_queries(3, 16, 40)
    session.answer(first)
    session.save(tmp_path / "s")
    twins = [session.fork(), Session.load(tmp_path / "s", encoder, gallery)]
    expected = [session.answer(batch).top(5).ids for batch in (second, third)]
    for twin in twins:
        assert twin.settings == session.settings and twin.method == session.method
        assert [twin.answer(batch).top(5).ids for batch in (second, third)] == expected
