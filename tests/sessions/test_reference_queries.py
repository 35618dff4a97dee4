"""Batches of ordinary queries are answered by the source model, and teach nothing."""

import json
import math
import threading
from dataclasses import replace

import pytest
import torch

from miniature import Count, Remote, Toy, items, same, shifted, stream
from queryshift import (
    METHODS,
    REST,
    Decoupled,
    Gallery,
    Guard,
    GuardWarning,
    ReferenceQueries,
    ReferenceWarning,
    Refined,
    Session,
    TCRUntrained,
    Tent,
    answer_many,
    load,
)
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.lab import tangram
from queryshift.retrieval.forward import Forward
from queryshift.sessions.policy import standing_weight


def near(clean, seed: int) -> list[torch.Tensor]:
    """Queries that are hardly shifted, in the sample and in the stream."""
    noise = torch.randn(len(clean), 10, generator=torch.Generator().manual_seed(seed))
    return list(torch.stack(clean) + 0.05 * noise)


class Blind(Toy):
    """Gives no finite vector for items that are far out."""

    def forward(self, prepared: torch.Tensor) -> torch.Tensor:
        return torch.where(prepared[:, :1] > 50, math.nan, super().forward(prepared))


@pytest.fixture(scope="module")
def ordinary(encoder, gallery, clean):
    return ReferenceQueries.of(encoder, gallery, near(clean, seed=1))


@pytest.fixture
def session(encoder, gallery, ordinary):
    guard = Guard(reference=ordinary)
    return Session(encoder, gallery, REST(), lr=0.01, guard=guard)


@pytest.fixture(scope="module")
def calm(clean):
    return near(clean[:12], seed=2)


class TestTheSample:
    def test_is_the_cosine_to_the_nearest_candidate(self, encoder, gallery, clean, ordinary):
        vectors = encoder.encode(near(clean, seed=1))
        nearest = (vectors @ gallery.vectors[:, 0].T).amax(dim=1).double()
        assert ordinary.mean == pytest.approx(float(nearest.mean()), abs=1e-6)
        assert ordinary.deviation == pytest.approx(float(nearest.std()), abs=1e-6)
        assert ordinary.count == len(clean)

    def test_is_the_same_in_batches_of_any_size(self, encoder, gallery, clean, ordinary):
        again = ReferenceQueries.of(encoder, gallery, near(clean, seed=1), batch_size=7)
        assert again.mean == pytest.approx(ordinary.mean) and again.count == ordinary.count

    def test_leaves_out_what_the_queries_leave_out(self, encoder, gallery, clean, ordinary):
        own = [f"c{row}" for row in range(len(clean))]
        others = ReferenceQueries.of(
            encoder, gallery, near(clean, seed=1), exclude=own, batch_size=16
        )
        assert others.mean < ordinary.mean - ordinary.deviation

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"queries": []}, "got 0 reference queries, expected a few hundred"),
            ({"queries": items(1)}, "got 1 reference queries"),
            ({"queries": items(1) * 3}, "at least two different ones: measure a few hundred"),
            ({"queries": items(60)}, "are candidates themselves, exclude each"),
            ({"batch_size": 0}, "batch_size is 0, expected a whole number"),
            ({"exclude": ["c1"]}, "got exclusions for 1 of 60 queries: give one each"),
            ({"limit": "3"}, "limit is '3', expected a number"),
            ({"patience": 0}, "patience=0, expected .* a patience of at least one batch"),
            ({"limit": -1.0}, "limit=-1.0 .* expected a limit of at least 0"),
            ({"patience": 2.5}, "patience is 2.5, expected a whole number"),
        ],
    )
    def test_that_says_nothing_is_refused(self, given, message, encoder, gallery, clean):
        with pytest.raises(BadInput, match=message):
            ReferenceQueries.of(encoder, gallery, **{"queries": near(clean, seed=1), **given})

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((1.5, 0.1, 100), "a mean cosine of 1.5, expected at most 1: normalise"),
            (
                (0.5, 0.0, 100),
                "got 100 cosines with a standard deviation of 0, expected at least two",
            ),
            (
                (0.5, 0.1, 1),
                "got 1 cosines with a standard deviation of 0.1, expected at least two",
            ),
            ((math.nan, 0.1, 100), "mean is nan, expected a number"),
        ],
    )
    def test_of_nonsense_is_refused(self, given, message):
        with pytest.raises(BadInput, match=message):
            ReferenceQueries(*given)

    def test_names_the_query_that_has_no_finite_vector(self, gallery, clean):
        queries = [*near(clean, seed=1), torch.full((10,), 60.0)]
        with pytest.raises(BadInput, match="the cosine of query 60 holds NaN"):
            ReferenceQueries.of(Blind(), gallery, queries, batch_size=16)

    def test_must_be_measured_for_a_guard(self):
        with pytest.raises(BadInput, match=r"reference is 0\.5, expected a measured sample"):
            Guard(reference=0.5)


def test_another_encoder_s_are_refused(gallery, ordinary):
    other = Toy(seed=1)
    with pytest.raises(BadInput, match=r"measured with another encoder .* this Toy has"):
        Session(other, gallery, REST(), guard=Guard(reference=ordinary))
    Session(
        other, gallery, REST(), guard=Guard(reference=ReferenceQueries(0.9, 0.1, 100))
    )  # not known


def test_strangeness_counts_standard_errors_of_both_samples():
    known = ReferenceQueries(mean=0.9, deviation=0.1, count=16)
    gallery = Gallery.from_vectors(range(2), torch.eye(2))
    cosine = torch.tensor([0.8, 0.6, 0.8, 0.6])
    seen = Forward(torch.stack([cosine, -(1 - cosine**2).sqrt()], dim=1), gallery)
    error = 0.1 * math.sqrt(1 / 4 + 1 / 16)
    assert known.shift_score(seen) == pytest.approx((0.9 - 0.7) / error, rel=1e-5)
    assert not known.knows(seen)
    assert ReferenceQueries(mean=0.9, deviation=0.1, count=16, limit=4.0).knows(seen)
    assert ReferenceQueries(mean=0.5, deviation=0.1, count=16).knows(seen)  # nearer is not strange


class TestAnOrdinaryBatch:
    def test_is_answered_by_the_source_and_teaches_nothing(self, session, encoder, calm):
        before = session.state
        answer = session.answer(calm)
        assert torch.equal(answer.vectors, encoder.encode(calm))
        assert session.state.adapted is before.adapted and session.state.memory is before.memory
        told = session.stats()
        assert not told.adapted and told.shift_score <= 3 and told.batch == 1

    def test_is_the_source_s_after_a_shift_too(self, session, encoder, batches, calm):
        session.answer(batches[0])
        learnt = session.state.adapted
        answer = session.answer(calm)
        assert torch.equal(answer.vectors, encoder.encode(calm))
        assert session.state.adapted is learnt and learnt.updates > 0
        session.answer(batches[1])  # goes on from what was learnt
        assert session.state.adapted.updates == 2 * learnt.updates

    def test_costs_the_one_forward_of_the_source_and_one_search(
        self, session, batches, calm, monkeypatch
    ):
        session.answer(batches[0])
        Count.restart()
        asked, search = [], Gallery.search
        monkeypatch.setattr(Gallery, "search", lambda *a: asked.append(a[2]) or search(*a))
        session.answer(calm).top(10)
        assert (Count.forwards, Count.products, asked) == (1, 0, [10])
        session.answer(calm[:5], adapt=False)
        assert Count.forwards == 2

    @pytest.mark.parametrize("name", sorted(METHODS))
    @pytest.mark.parametrize("wrapped", [None, Decoupled, Refined])
    def test_is_the_plain_source_s_with_any_method(
        self, name, wrapped, encoder, gallery, ordinary, batches, calm
    ):
        method = METHODS[name]() if wrapped is None else wrapped(METHODS[name]())
        session = Session(encoder, gallery, method, lr=0.01, guard=Guard(reference=ordinary))
        for batch in (calm, batches[0], calm):
            answer = session.answer(batch)
        assert torch.allclose(answer.vectors, encoder.encode(calm), atol=1e-6)
        assert session.answer(batches[1]).top(1).positions.shape == (12, 1)
        if method.adapting:
            assert [one.adapted for one in session.history] == [False, True, False, True]

    def test_with_candidates_left_out_is_judged_without_them(
        self, encoder, gallery, clean, calm, ordinary
    ):
        left_out = [f"c{row}" for row in range(len(clean))]
        others = ReferenceQueries.of(encoder, gallery, near(clean, seed=1), exclude=left_out)
        for known, adapted in ((ordinary, True), (others, False)):
            session = Session(encoder, gallery, REST(), lr=0.01, guard=Guard(reference=known))
            session.answer(calm, exclude=left_out[:12])
            assert session.stats().adapted == adapted

    def test_is_known_in_a_gallery_that_can_only_be_searched(
        self, encoder, gallery, ordinary, batches, calm
    ):
        remote, guard = Remote(gallery), Guard(reference=ordinary)
        searched, known = (
            ReferenceQueries.of(encoder, remote, calm),
            ReferenceQueries.of(encoder, gallery, calm),
        )
        assert replace(searched, gallery=None) == replace(known, gallery=None)
        session = Session(encoder, remote, REST(), lr=0.01, guard=guard)
        session.answer(batches[0])
        assert torch.equal(session.answer(calm).vectors, encoder.encode(calm))

    def test_that_gathers_teaches_nothing(self, encoder, gallery, ordinary, calm, batches):
        guard = Guard(reference=ordinary)
        session = Session(encoder, gallery, REST(), lr=0.01, guard=guard, gather=12)
        for query in calm:
            session.answer([query])
        assert session.state.adapted.updates == 0 and len(session.history) == 1
        for query in batches[0]:
            session.answer([query])
        assert session.state.adapted.updates > 0

    def test_lets_the_source_answer_until_a_strange_one(self, encoder, session, batches, calm):
        one, many = calm[:1], [calm[:5], calm[5:]]
        session.answer(batches[0])
        assert not torch.equal(session.answer(one, adapt=False).vectors, encoder.encode(one))
        assert standing_weight(session.adaptation, session.state) > 0
        session.answer(calm)
        assert session.state.reference_streak == 1
        assert standing_weight(session.adaptation, session.state) == 0
        assert torch.equal(session.answer(one, adapt=False).vectors, encoder.encode(one))
        session.answer(one)  # too few to learn from, and to judge
        assert session.state.reference_streak == 1
        for found, asked in zip(answer_many([session, session], many), many, strict=True):
            assert torch.allclose(found.vectors, encoder.encode(asked), atol=1e-6)
        session.answer(batches[1])
        assert not torch.equal(session.answer(one, adapt=False).vectors, encoder.encode(one))

    def test_lets_the_source_answer_single_queries(self, encoder, gallery, ordinary, calm, batches):
        guard = Guard(reference=ordinary)
        session = Session(encoder, gallery, REST(), lr=0.01, guard=guard, gather=12)
        session.answer(batches[0])
        moved = session.answer(calm[:1]).vectors
        session.answer(calm[1:])
        assert not torch.equal(moved, encoder.encode(calm[:1]))
        assert torch.equal(session.answer(calm[:1]).vectors, encoder.encode(calm[:1]))

    def test_is_nothing_to_a_session_that_knows_none_any_more(
        self, session, encoder, gallery, batches, calm, tmp_path
    ):
        session.answer(batches[0]), session.answer(calm)
        session.save(tmp_path / "session")
        bare = Session.load(tmp_path / "session", encoder, gallery, guard=None)
        answer = bare.answer(batches[1], adapt=False)
        assert not torch.equal(answer.vectors, answer.source.vectors)


class TestSeveralInARow:
    def test_end_the_shift(self, encoder, gallery, session, batches, calm):
        session.answer(batches[0])
        for count in range(1, 4):
            session.answer(calm)
            assert session.state.reference_streak == count and session.state.adapted.updates > 0
        session.answer(calm)
        assert (
            session.stats().restart
            == "the shift is over: 4 batches in a row look like the reference queries"
        )
        assert session.state.adapted.updates == 0 and session.state.resets == 1
        plain = Session(encoder, gallery, REST(), lr=0.01)
        seen = {"chances": session.state.chances, "found": session.state.found}
        plain.restore(replace(plain.state, **seen))  # as much in doubt
        assert same(plain.answer(batches[1]).vectors, session.answer(batches[1]).vectors)

    def test_must_be_in_a_row(self, session, batches, calm):
        session.answer(batches[0])
        for batch in (calm, calm, calm, batches[1], calm, calm, calm):
            session.answer(batch)
        assert session.state.resets == 0 and session.state.adapted.updates > 0

    def test_are_no_news_where_nothing_was_learnt(self, session, calm):
        for _ in range(9):
            session.answer(calm)
        assert session.state.resets == 0 and session.state.reference_streak == 9
        assert not any(one.restart for one in session.history)

    def test_end_what_only_a_memory_has_learnt(self, encoder, gallery, ordinary, batches, calm):
        guard = Guard(reference=replace(ordinary, patience=2))
        session = Session(encoder, gallery, TCRUntrained(), guard=guard)
        fresh = session.state.memory
        session.answer(batches[0])
        assert not same(session.state.memory, fresh)
        session.answer(calm)
        session.answer(calm)
        assert same(session.state.memory, fresh)


class TestAStrangeBatch:
    @pytest.mark.parametrize("name", sorted(METHODS))
    def test_is_adapted_to_as_without_it(self, name, encoder, gallery, ordinary, batches):
        plain = Session(encoder, gallery, METHODS[name](), lr=0.01, guard=Guard())
        known = Session(encoder, gallery, METHODS[name](), lr=0.01, guard=Guard(reference=ordinary))
        for batch in batches:
            assert same(plain.answer(batch).vectors, known.answer(batch).vectors)
        assert same(plain.state, known.state)
        assert all(one.shift_score > 3 for one in known.history)
        assert all(one.shift_score is None for one in plain.history)

    def test_is_told_from_an_ordinary_one_whatever_it_was_before(self, session, clean, calm):
        for batch in (calm, shifted(clean[:12]), calm, *stream(clean, 2)):
            session.answer(batch)
        assert [one.adapted for one in session.history] == [False, True, False, True, True]


class TestBesideTheAnswers:
    @pytest.fixture
    def beside(self, encoder, gallery, ordinary, batches, calm):
        guard = Guard(reference=ordinary)
        session = Session(encoder, gallery, Tent(), lr=0.01, guard=guard, gather=12, worker=True)
        for batch in (batches[0], calm):
            session.answer(batch)
            session.wait()
        assert session.state.reference_streak == 1 and session.state.adapted.updates > 0
        return session

    @pytest.fixture
    def gate(self, monkeypatch):
        gate, knows, here = threading.Event(), ReferenceQueries.knows, threading.current_thread()

        def held(*given):  # in the worker; answers are judged too, and do not wait for it
            return (threading.current_thread() is here or gate.wait(20)) and knows(*given)

        monkeypatch.setattr(ReferenceQueries, "knows", held)
        yield gate
        gate.set()

    def test_an_ordinary_group_counts_behind_what_was_only_answered(self, beside, gate, calm):
        beside.answer(calm)
        beside.answer(calm[:3], adapt=False)
        gate.set()
        beside.wait()
        assert (beside.state.reference_streak, beside.state.batches, beside.dropped) == (2, 4, 0)
        assert [one.batch for one in beside.history] == [1, 2, 3, 4]

    def test_an_ordinary_group_after_one_that_was_undone_is_dropped(self, beside, gate, calm):
        beside.answer(calm)
        beside.undo()
        gate.set()
        beside.wait()
        assert (beside.state.reference_streak, beside.state.batches, beside.dropped) == (0, 1, 1)


class TestWhileTheSourceAnswers:
    def test_undo_fork_and_reset_know_it(self, session, encoder, batches, calm):
        session.answer(batches[0])
        session.answer(calm)
        twin = session.fork()
        session.undo()
        assert (session.state.reference_streak, twin.state.reference_streak) == (0, 1)
        assert torch.equal(twin.answer(calm, adapt=False).vectors, encoder.encode(calm))
        twin.reset()
        assert twin.state.reference_streak == 0

    def test_what_gives_no_finite_vectors_is_given_up_when_it_is_needed(
        self, encoder, gallery, ordinary, batches, calm
    ):
        guard = Guard(reference=ordinary)
        session = Session(encoder, gallery, Tent(), lr=1e30, steps=1, guard=guard)
        session.answer(batches[0])
        session.answer(calm)  # the source's: nobody looks through what was learnt
        with pytest.warns(GuardWarning, match="not finite: the adapted model") as warned:
            answer = session.answer(batches[1])
        assert warned[0].filename == __file__
        assert torch.equal(answer.vectors, encoder.encode(batches[1]))
        assert (session.state.reference_streak, session.state.resets) == (0, 1)

    def test_a_query_without_a_finite_vector_is_named(self, gallery, ordinary, batches, calm):
        guard = Guard(reference=ordinary)
        session = Session(Blind(), gallery, REST(), lr=0.01, guard=guard, gather=12)
        session.answer(batches[0])
        session.answer(calm)
        before = session.state
        with pytest.raises(BadInput, match="the vector of query 1 holds NaN"):
            session.answer([calm[0], torch.full((10,), 60.0)])
        assert session.state is before and before.reference_streak == 1


def test_vectors_of_another_dimension_are_refused_before_the_search(gallery, ordinary, batches):
    guard = Guard(reference=replace(ordinary, encoder=None))
    session = Session(Toy(outputs=12), gallery, REST(), guard=guard)
    with pytest.raises(GalleryMismatch, match="was it built by another model"):
        session.answer(batches[0])


def test_a_session_that_never_adapts_tells_how_strange_queries_are(
    encoder, gallery, ordinary, batches, calm
):
    session = Session(encoder, gallery, METHODS["frozen"](), guard=Guard(reference=ordinary))
    Count.restart()
    for batch in (calm, batches[0]):
        session.answer(batch)
    assert Count.forwards == 2
    assert [one.shift_score > 3 for one in session.history] == [False, True]


def test_is_looked_for_without_adapting_too(session, batches, calm):
    session.answer(batches[0])
    learnt = session.state
    Count.restart()
    answer = session.answer(calm, adapt=False)
    assert Count.forwards == 1 and session.stats().shift_score < session.adaptation.reference.limit
    assert torch.equal(answer.vectors, session.encoder.encode(calm))
    assert same(session.state.adapted, learnt.adapted) and session.state.reference_streak == 0
    strange = session.answer(batches[0], adapt=False)
    assert not torch.equal(strange.vectors, session.encoder.encode(batches[0]))


def test_answers_of_many_sessions_are_judged_as_those_of_one(session, batches, calm):
    session.answer(batches[0])
    known, strange = answer_many([session, session], [calm, batches[0]])
    assert torch.allclose(known.vectors, session.encoder.encode(calm), atol=1e-6)
    alone = session.fork().answer(batches[0], adapt=False)
    assert torch.allclose(strange.vectors, alone.vectors, atol=1e-6)


class TestAnotherGallery:
    def other(self, encoder):
        return Gallery.build(encoder, items(70))

    def test_is_told_when_a_session_starts(self, encoder, ordinary):
        with pytest.warns(ReferenceWarning, match="over another gallery"):
            Session(encoder, self.other(encoder), REST(), guard=Guard(reference=ordinary))

    def test_is_told_when_a_session_gets_it(self, encoder, session):
        with pytest.warns(ReferenceWarning, match="over another gallery"):
            session.gallery = self.other(encoder)

    def test_with_the_same_ids_is_told_apart(self, encoder, gallery, ordinary):
        turned = Gallery.from_vectors(gallery.ids, gallery.vectors.flip(0))
        assert turned.version == gallery.version
        with pytest.warns(ReferenceWarning):
            Session(encoder, turned, REST(), guard=Guard(reference=ordinary))

    def test_may_be_declared_not_to_matter(self, encoder, ordinary):
        known = replace(ordinary, gallery=None)
        Session(encoder, self.other(encoder), REST(), guard=Guard(reference=known))


def test_a_sample_whose_answers_are_not_in_the_gallery_is_told():
    scenes, model = tangram.scenes("dev", 300), load("tangram")
    gallery = Gallery.build(model["text"], [tangram.captions(one)[0] for one in scenes[100:]])
    pictures = [one.image() for one in scenes]
    ReferenceQueries.of(model["image"], gallery, pictures[100:200])
    with pytest.warns(ReferenceWarning, match="are their answers in the gallery"):
        ReferenceQueries.of(model["image"], gallery, pictures[:100])


def test_shadow_answers_with_the_source_and_keeps_out_of_it_too(encoder, gallery, ordinary, calm):
    guard = Guard(reference=ordinary)
    session = Session(encoder, gallery, Tent(), lr=0.01, guard=guard, mode="shadow")
    session.answer(calm)
    assert session.stats().disagreement == 0 and session.state.adapted.updates == 0


def test_a_saved_session_knows_them_still(session, encoder, gallery, batches, calm, tmp_path):
    session.answer(batches[0])
    session.answer(calm)
    session.save(tmp_path / "state")
    loaded = Session.load(tmp_path / "state", encoder, gallery)
    assert loaded.settings == session.settings and loaded.history == session.history
    assert loaded.state.reference_streak and same(loaded.state, session.state)
    assert same(loaded.answer(calm).vectors, session.answer(calm).vectors)
    assert json.loads(json.dumps(vars(loaded.stats())))["shift_score"] is not None
