"""A session without a method: what it is made of, and that everybody else names theirs."""

import pytest
import torch

from queryshift import (
    REST,
    Frozen,
    Gallery,
    Guard,
    Hubs,
    InfoMax,
    Ordinary,
    Session,
    Vectors,
    answer_many,
)
from queryshift.retrieval.forward import Forward
from queryshift.sessions.choice import RankingByRow, agree, finds, source_rows, stands_out
from toy import ToyEncoder, toy_gallery, toy_items, toy_queries


@pytest.fixture
def encoder():
    return ToyEncoder()


@pytest.fixture
def gallery(encoder):
    return toy_gallery(encoder, 40)


def test_is_infomax_with_hubs_a_guard_and_the_choice(encoder, gallery):
    session = Session(encoder, gallery)
    assert isinstance(session.method, InfoMax)
    assert session.settings.hubs == Hubs() and session.settings.guard == Guard()
    assert session.settings.choose


def test_what_is_said_wins(encoder, gallery):
    session = Session(encoder, gallery, hubs=None, guard=None, choose=False, lr=0.5)
    assert session.settings.hubs is None and session.settings.guard is None
    assert not session.settings.choose and session.method.lr == 0.5


def test_queries_that_are_vectors_are_left_as_they_are():
    gallery = Gallery.from_vectors(["north", "east"], [[0.0, 1.0], [1.0, 0.0]])
    session = Session(Vectors(2), gallery)
    assert isinstance(session.method, Frozen) and session.settings.hubs == Hubs()
    assert session.answer([[0.2, 3.0]]).top(1).ids == [["north"]]


def test_a_named_method_brings_nothing_else(encoder, gallery):
    settings = Session(encoder, gallery, REST()).settings
    assert (settings.hubs, settings.guard, settings.choose) == (None, Guard(), None)


def test_with_a_guard_the_source_answers_what_it_answers_as_well(encoder, gallery):
    ordinary = Ordinary.of(encoder, gallery, toy_items(40))
    guards = (Guard(), None, Guard(ordinary=ordinary))
    found = [Session(encoder, gallery, REST(), guard=guard).settings for guard in guards]
    assert [one.chooses for one in found] == [True, False, False]
    said = Session(encoder, gallery, REST(), guard=None, choose=True).settings
    assert said.chooses and not Session(encoder, gallery, choose=False).settings.chooses


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


class TestTheChoice:
    def forward(self, vectors):
        gallery = Gallery.from_vectors(range(8), torch.eye(8).tolist())
        return Forward(torch.nn.functional.normalize(vectors, dim=1), gallery)

    def test_the_source_answers_where_seven_of_ten_first_places_agree(self):
        one = self.forward(torch.eye(8).repeat(5, 1))
        vectors = one.vectors.clone()
        vectors[:13] = vectors[8]
        assert source_rows(one, one, one).all()
        assert source_rows(other := self.forward(vectors), other, one).all()
        vectors[:15] = vectors[8]
        assert not source_rows(other := self.forward(vectors), other, one).any()

    def test_or_where_its_first_places_stand_out(self):
        gallery = Gallery.from_vectors(range(200), torch.eye(200).tolist())
        random = torch.randn(32, 200, generator=torch.Generator().manual_seed(0))
        unsure = Forward(torch.nn.functional.normalize(random, dim=1), gallery)
        known = random + 9 * torch.eye(200)[:32]
        sure = Forward(torch.nn.functional.normalize(known, dim=1), gallery)
        assert bool(stands_out(sure)) and not bool(stands_out(unsure))
        assert not bool(agree(unsure, sure))
        assert source_rows(unsure, unsure, sure).all()
        assert not source_rows(sure, sure, unsure).any()

    def test_all_of_them_where_the_adapted_model_is_clear_about_others(self):
        gallery = Gallery.from_vectors(range(200), torch.eye(200).tolist())
        random = torch.randn(32, 200, generator=torch.Generator().manual_seed(0))
        first = torch.eye(200)[:32]
        source, near, far = (
            Forward(torch.nn.functional.normalize(one, dim=1), gallery)
            for one in (random + 9 * first, random + 30 * first, random + 30 * first.roll(32, 1))
        )
        assert not source_rows(near, near, source).any()
        assert source_rows(far, far, source).all()

    def test_but_not_queries_that_the_adapted_model_is_clearer_about(self):
        plain = torch.eye(8) + 0.5
        source, clearer = self.forward(plain), plain.clone()
        clearer[3] = torch.eye(8)[3]
        adapted = self.forward(clearer)
        assert source_rows(adapted, adapted, source).tolist() == [row != 3 for row in range(8)]

    def test_another_first_place_is_found_among_the_ten_best(self):
        source = self.forward(torch.eye(8))
        moved = self.forward(torch.eye(8).roll(1, 0))
        assert bool(finds(moved, source))
        assert not bool(agree(moved, source))

    def test_it_is_not_found_beyond_the_ten_best(self):
        gallery = Gallery.from_vectors(range(40), torch.eye(40).tolist())
        source = Forward(torch.eye(40)[:20], gallery)
        far = Forward(-source.vectors, gallery)
        assert not bool(finds(far, source))

    def test_each_query_is_answered_by_its_own_ranking(self):
        source, adapted = self.forward(torch.eye(8)), self.forward(torch.eye(8).roll(1, 0))
        rows = torch.arange(8) < 3
        order = RankingByRow(rows, source, adapted)
        expected = [*range(3), *((row - 1) % 8 for row in range(3, 8))]
        assert order.hits(2).positions[:, 0].tolist() == expected
        assert order.all_scores().argmax(dim=1).tolist() == expected

    def test_learning_is_the_same_with_it(self, encoder, gallery):
        sessions = [
            Session(encoder, gallery, InfoMax(lr=0.05), choose=one, guard=None)
            for one in (True, False)
        ]
        for batch in toy_queries(3, 16, 40):
            for session in sessions:
                session.answer(batch)
        values = [session.state.adapted.values for session in sessions]
        assert torch.equal(*values)

    def test_ordinary_queries_are_answered_by_the_source_as_it_is(self, encoder, gallery):
        frozen = Session(encoder, gallery, Frozen())
        session = Session(encoder, gallery, lr=1e-6)
        for batch in toy_items(40).split(20):
            expected = frozen.answer(batch)
            assert torch.equal(session.answer(batch).vectors, expected.vectors)

    def test_ordinary_queries_are_so_without_adapting_too(self, encoder, gallery):
        session = Session(encoder, gallery, lr=1e-6)
        first, second = toy_items(40).split(20)
        session.answer(first)
        gathering = Session(encoder, gallery, lr=1e-6, gather=20)
        gathering.answer(first)
        expected = Session(encoder, gallery, Frozen()).answer(second).vectors
        found = [session.answer(second, adapt=False), gathering.answer(second)]
        for answer in (*found, *answer_many([session], [list(second)])):
            assert torch.equal(answer.vectors, expected)
