"""Streams that ruined a session: with the default guard they do not."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift import REST, SHOT, TCR, Gallery, GuardWarning, Hubs, Session, Tent
from queryshift.lab import tangram
from queryshift.retrieval.uncertainty import LATEST
from queryshift.sessions.state import State

METHODS = (REST(), TCR(), SHOT())


@pytest.fixture(scope="module")
def image():
    return qs.load("tangram")["image"]


@pytest.fixture(scope="module")
def pictures():
    return [scene.image() for scene in tangram.scenes("dev", 96)]


@pytest.fixture(scope="module")
def captions():
    scenes = tangram.scenes("dev", 96)
    texts = [caption for scene in scenes for caption in tangram.captions(scene)]
    return Gallery.build(qs.load("tangram")["text"], texts, batch_size=256)


def noisy(pictures, seed=0):
    chance = np.random.default_rng(seed)
    noise = chance.normal(0, 60, (len(pictures), *pictures[0].shape))
    return list((np.stack(pictures) + noise).clip(0, 255).astype(np.uint8))


def in_full_doubt(*parts, **settings) -> Session:
    """A session after queries whose first places told nothing: as eager to learn as can be."""
    session = Session(*parts, **settings)
    session.restore(replace(session.state, chances=torch.ones(LATEST)))
    return session


def at_source(session, queries) -> bool:
    answer = session.answer(queries, adapt=False)
    return torch.allclose(answer.vectors, session.encoder.encode(queries), atol=1e-6)


class TestOneQueryAskedAgainAndAgain:
    @pytest.mark.parametrize("method", METHODS, ids=lambda one: one.name)
    def test_teaches_nothing(self, method, image, captions, pictures):
        session = in_full_doubt(image, captions, method)
        for _ in range(3):
            session.answer([pictures[7]] * 16)
        assert session.state.adapted.updates == 0
        assert not any(one.adapted for one in session.history)

    def test_ruins_a_session_without_a_guard(self, image, captions, pictures):
        session = Session(image, captions, REST(), guard=None)
        session.answer([pictures[7]] * 16)
        assert session.state.adapted.updates == 3

    def test_teaches_nothing_where_queries_gather(self, image, captions, pictures):
        session = in_full_doubt(image, captions, REST(), gather=8)
        for _ in range(16):
            session.answer([pictures[7]])
        assert len(session.history) == 2 and session.state.adapted.updates == 0

    def test_or_nearly_the_same_does_not_either(self, image, captions, pictures):
        chance = np.random.default_rng(0)
        jitter = [chance.integers(-1, 2, pictures[7].shape) for _ in range(16)]
        nearly = [(pictures[7] + one).clip(0, 255).astype(np.uint8) for one in jitter]
        session = in_full_doubt(image, captions, REST())
        session.answer(nearly)
        assert session.state.adapted.updates == 0

    def test_stays_out_of_the_bank(self, image, captions, pictures):
        session = Session(image, captions, qs.Frozen(), hubs=Hubs())
        session.answer([pictures[7]] * 16)
        assert len(session.state.hubs.vectors) == 0
        session.answer(pictures[:16])
        assert len(session.state.hubs.vectors) == 16


class TestTwoQueriesInTurn:
    def test_teach_nothing(self, image, captions, pictures):
        session = in_full_doubt(image, captions, REST())
        for _ in range(4):
            session.answer(pictures[:2] * 8)
        assert session.state.adapted.updates == 0

    def test_count_once_beside_new_ones(self, image, captions, pictures):
        session, mixed = (in_full_doubt(image, captions, REST(), steps=1) for _ in range(2))
        session.answer(pictures[:10])
        mixed.answer([*pictures[:10], *[pictures[0]] * 8])
        assert session.state.adapted.updates == 1
        assert torch.allclose(mixed.state.adapted.values, session.state.adapted.values, atol=1e-6)


class TestForgetting:
    @pytest.fixture
    def shifted(self, image, captions, pictures):
        session = Session(image, captions, REST())
        for start in range(0, 96, 32):
            session.answer(noisy(pictures[start : start + 32], start))
        return session

    def test_clean_queries_after_a_shift_are_answered_by_the_source(self, shifted, pictures):
        assert shifted.state.adapted.updates > 0
        assert at_source(shifted, pictures[:64])
        assert not at_source(shifted, noisy(pictures[:64], 5))

    def test_single_ones_follow_the_latest_before_them(self, shifted, pictures):
        assert not at_source(shifted, pictures[:1])
        shifted.answer(pictures[:64])
        assert at_source(shifted, pictures[64:65])

    def test_many_sessions_answer_as_one(self, shifted, pictures):
        for asked in (pictures[:64], noisy(pictures[:32], 5)):
            (answer,) = qs.answer_many([shifted], [asked])
            alone = shifted.answer(asked, adapt=False)
            assert torch.allclose(answer.vectors, alone.vectors, atol=1e-5)
            assert torch.allclose(answer.top(5).scores, alone.top(5).scores, atol=1e-4)

    def test_what_was_learnt_survives_a_file(self, shifted, image, captions, pictures, tmp_path):
        shifted.save(tmp_path / "session")
        again = Session.load(tmp_path / "session", image, captions)
        assert torch.equal(again.state.chances, shifted.state.chances)
        assert torch.equal(again.state.found, shifted.state.found) and len(again.state.found) >= 64
        assert at_source(again, pictures[:64])

    def test_clean_queries_teach_nothing(self, shifted, pictures):
        before = shifted.state.adapted
        shifted.answer(pictures[:64])
        assert shifted.state.adapted is before and not shifted.stats().adapted


def test_a_warning_as_an_error_leaves_the_session_as_it_was(image, captions, pictures, monkeypatch):
    session = in_full_doubt(image, captions, Tent())
    session.answer(pictures[:16])
    before, events = session.state, []
    session.on_event = events.append
    monkeypatch.setattr(State, "finite", False)
    monkeypatch.setattr("queryshift.sessions.step._sound", lambda *_: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GuardWarning)
        with pytest.raises(GuardWarning, match="not finite"):
            session.answer(pictures[16:32])
    assert session.state is before and len(session.history) == 1 and not events
