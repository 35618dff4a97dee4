"""The rules between a query and its answer, one by one (sessions/policy.py)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from miniature import SharedToy, Toy, same, stream
from queryshift import (
    REST,
    Gallery,
    Guard,
    GuardWarning,
    Hubs,
    InfoMax,
    Refined,
    Session,
    Vectors,
    answer_many,
    load,
)
from queryshift.lab.tangram import scenes
from queryshift.methods.base import StepView
from queryshift.methods.optimiser import Adapted, Layout
from queryshift.retrieval.answer import FusedRanking
from queryshift.retrieval.forward import Batch, Forward
from queryshift.retrieval.uncertainty import LATEST, chances_of, no_doubt
from queryshift.sessions import policy
from queryshift.sessions.policy import (
    CONSTANTS,
    MOST,
    MOVE,
    Assessment,
    assess,
    doubt_of,
    found_by,
    gallery_spread,
    shared,
    step_rows,
    weight,
)
from queryshift.sessions.state import State

CPU = torch.device("cpu")
FULL = torch.ones(LATEST)  # chances of queries that know nothing
SURE = torch.zeros(LATEST)


def in_doubt(session: Session, chances: torch.Tensor = FULL) -> Session:
    """The session after queries that stood out with these chances."""
    session.restore(replace(session.state, chances=chances))
    return session


def asked_before(encoder, gallery, chances: torch.Tensor = FULL) -> State:
    """A state after queries with these chances, whose top-1 results nobody knows."""
    return in_doubt(Session(encoder, gallery), chances).state


def twin(session: Session, **settings) -> Session:
    """Another session with the same state and other settings."""
    asked = {"hubs": session.settings.hubs, "guard": session.settings.guard, **settings}
    other = Session(session.encoder, session.gallery, session.method, **asked)
    other.restore(session.state)
    return other


@pytest.fixture
def learnt(encoder, gallery, batches) -> Session:
    """A default session that has learnt from three batches and is in some doubt."""
    session = in_doubt(Session(encoder, gallery, lr=0.01))
    for batch in batches[:3]:
        session.answer(batch)
    assert session.state.adapted.updates == 9 and len(session.state.hubs) > 30
    return in_doubt(session, torch.full((LATEST,), 0.42))


class TestDoubt:
    @pytest.mark.parametrize("size", [1, 12, 60])
    def test_of_few_queries_counts_those_before_them(self, size, encoder, gallery, clean):
        source = Forward(encoder.encode(stream(clean, 1, size)[0]), gallery)
        for before in (no_doubt(CPU), torch.rand(LATEST, generator=torch.Generator())):
            latest = [*before.tolist(), *chances_of(source).tolist()][-64:]
            expected = min(1.0, max(0.0, (2 * sum(latest) / 64 - 0.7) / 0.3))
            state = asked_before(encoder, gallery, before)
            assert doubt_of(source, state) == pytest.approx(expected, abs=1e-5)
            assert assess(source, state, Guard()).doubt == pytest.approx(expected, abs=1e-5)

    def test_of_many_queries_is_theirs_alone(self, encoder, gallery, clean):
        source = Forward(
            encoder.encode([one + 0.1 * i for one in clean for i in range(2)]), gallery
        )
        mean = sum(chances_of(source).tolist()) / 120
        states = [asked_before(encoder, gallery, before) for before in (FULL, SURE)]
        found = found_by(source, states[0])
        less = float(shared(found, 60))
        expected = pytest.approx(less * min(1.0, max(0.0, (2 * mean - 0.7) / 0.3)), abs=1e-5)
        assert [doubt_of(source, state) for state in states] == [expected] * 2
        assert [doubt_of(source, replace(state, found=found)) for state in states] == [expected] * 2
        seen = assess(source, states[0], Guard())
        assert len(seen.chances) == len(seen.found) == 120

    def test_one_query_asked_many_times_counts_once(self, encoder, gallery, clean):
        queries = stream(clean, 1, 3)[0]
        alone = Forward(encoder.encode(queries), gallery)
        copied = Forward(encoder.encode([*queries, *[queries[0]] * 80]), gallery)
        for before in (FULL, SURE):
            state = asked_before(encoder, gallery, before)
            seen, again = (assess(each, state, Guard()) for each in (alone, copied))
            assert again.doubt == pytest.approx(seen.doubt, abs=1e-5)
            assert torch.allclose(again.chances, seen.chances, atol=1e-5)
            assert doubt_of(copied, state) == pytest.approx(seen.doubt, abs=1e-5)

    def test_two_equal_queries_are_one(self, encoder, gallery, batches):
        one, two = batches[0][:1], batches[0][:2]
        state = asked_before(encoder, gallery, torch.full((LATEST,), 0.4))
        alone, copied, both = (
            Forward(encoder.encode(asked), gallery) for asked in (one, one * 2, two)
        )
        assert doubt_of(copied, state) == pytest.approx(doubt_of(alone, state), abs=1e-6)
        assert assess(copied, state, Guard(spread=0.0)).rows.tolist() == [True, False]
        assert assess(both, state, Guard(spread=0.0)).different == 2
        assert assess(both, state, Guard(spread=9.0)).different == 0

    def test_is_none_where_every_query_of_a_small_gallery_finds_another_candidate(self):
        each = torch.arange(60)
        for top, expected in ((each, 1 / 29.5), (each[:8], 1), (each % 4, 1)):
            assert float(shared(torch.stack((each[: len(top)], top), dim=1), 60)) == pytest.approx(
                expected
            )
        copies = torch.stack((each // 2, each // 2), dim=1)  # each query twice
        assert float(shared(copies, 60)) == pytest.approx(60 / (15 * 29))

    @pytest.mark.parametrize("size", [1, 8, 60])
    def test_is_the_same_for_batches_of_any_size(self, size):
        vectors = normalize(
            torch.randn(60, 1, 8, generator=torch.Generator().manual_seed(0)), dim=2
        )
        session = Session(Vectors(8), Gallery(range(60), vectors))
        for batch in vectors[:, 0].split(size):
            session.answer(batch)
        assert float(shared(session.state.found, 60)) == pytest.approx(1 / 29.5)
        session.gallery = Gallery(range(40), vectors[:40])
        assert len(session.state.found) == 0

    def test_of_single_queries_to_a_large_gallery_remembers_no_results(self):
        vectors = normalize(
            torch.randn(2016, 1, 8, generator=torch.Generator().manual_seed(0)), dim=2
        )
        for count, kept in ((2015, 3), (2016, 0)):
            session = Session(Vectors(8), Gallery(range(count), vectors[:count]))
            for row in range(3):
                session.answer(vectors[row])
            assert len(session.state.found) == kept
        session.answer(vectors[:64, 0])
        assert len(session.state.found) == 64 and float(shared(session.state.found, 2016)) == 1

    @pytest.mark.parametrize("size", [1, 8, 60])
    def test_a_default_session_leaves_sixty_alike_images_alone(self, size):
        """An image moved by some pixels: best scores are close, each query finds its own."""
        encoder, image = load("tangram", device="cpu")["image"], scenes("dev", 1)[0].image()
        moved = [np.roll(image, (down, right), (0, 1)) for down in range(8) for right in range(8)]
        rng = np.random.default_rng(0)
        asked = [(one + rng.integers(-4, 5, one.shape)).clip(0, 255) for one in moved[:60]]
        session = Session(encoder, Gallery.build(encoder, moved[:60]))
        order = rng.permutation(60)
        right = []
        for rows in np.split(order, range(size, 60, size)):
            answer = session.answer([asked[row].astype(np.uint8) for row in rows])
            right += (answer.top(1).positions[:, 0].numpy() == rows).tolist()
        assert sum(right) >= 59

    def test_a_stream_begins_without_any(self, encoder, gallery, batches):
        source = Forward(encoder.encode(batches[0][:1]), gallery)
        session = Session(encoder, gallery)
        assert doubt_of(source, session.state) < 0.1
        assert same(session.state.chances, no_doubt(CPU))

    def test_chances_are_kept_by_batches_that_teach_and_by_no_others(self, learnt, batches):
        before = learnt.state.chances
        learnt.answer(batches[3], adapt=False)
        assert learnt.state.chances is before
        learnt.answer(batches[3])
        assert torch.equal(learnt.state.chances[:-12], before[12:])

    def test_of_a_wider_encoder_is_kept_in_the_same_kind(self, clean, batches):
        toy = Toy(dtype=torch.float64)
        session = Session(toy, Gallery.build(toy, clean))
        session.answer(batches[0])
        assert session.state.chances.dtype == torch.float32

    @pytest.mark.parametrize(("doubted", "expected"), [(0, 0), (0.3, 0.3), (0.6, 0.6), (1, 0.6)])
    def test_is_the_weight_of_what_was_learnt(self, doubted, expected):
        assert weight(doubted) == expected and CONSTANTS["most"] == MOST == 0.6


class TestWhatTeaches:
    def seen(self, encoder, gallery, queries, **limits) -> Assessment:
        state = asked_before(encoder, gallery)
        return assess(Forward(encoder.encode(queries), gallery), state, Guard(**limits))

    def test_queries_that_repeat_another_count_once(self, encoder, gallery, batches):
        twelve = batches[0]
        seen = self.seen(encoder, gallery, [*twelve[:3], *twelve[:2], *twelve[3:]])
        assert seen.different == 12
        assert seen.rows.tolist() == [True] * 3 + [False] * 2 + [True] * 9
        assert self.seen(encoder, gallery, twelve).rows is None

    def test_queries_that_are_near_each_other_are_no_repeats(self, encoder, gallery, batches):
        near = [batches[0][0] + 1e-2 * step for step in range(9)]
        assert self.seen(encoder, gallery, near, spread=0.0).different == 9
        assert self.seen(encoder, gallery, near[:1] * 9, spread=0.0).different == 1

    def test_queries_without_spread_teach_nothing(self, encoder, gallery, batches):
        """Copies do not count: neither for the spread nor for their centre."""
        queries = [*batches[0][:9], *batches[0][:1] * 9]
        vectors = encoder.encode(batches[0][:9])
        apart = torch.linalg.vector_norm(vectors - vectors.mean(dim=0), dim=1).mean()
        limit = float(apart / gallery_spread(gallery, vectors))
        found = [
            self.seen(encoder, gallery, queries, spread=limit * factor) for factor in (0.99, 1.01)
        ]
        assert [one.different for one in found] == [9, 0]
        assert not found[1].rows.any() and not found[1].teaches(1)

    def test_one_query_has_no_spread_to_ask_for(self, encoder, gallery, batches):
        seen = self.seen(encoder, gallery, batches[0][:1])
        assert seen.rows is None and seen.different == 1

    @pytest.mark.parametrize(
        ("doubted", "size", "different", "smallest", "expected"),
        [
            (0.5, 16, 10, 1, True),
            (0.5, 16, 9, 1, False),  # ten must differ
            (0.5, 5, 5, 1, True),  # all of a smaller batch
            (0.5, 5, 4, 1, False),
            (0.5, 16, 10, 11, False),  # the method needs more
            (0.0, 16, 16, 1, False),  # in no doubt
        ],
    )
    def test_enough_different_queries_in_doubt(self, doubted, size, different, smallest, expected):
        rows = None if different == size else torch.arange(size) < different
        found = torch.empty(0, 2, dtype=torch.long)
        seen = Assessment(doubted, FULL, found, rows, different)
        assert seen.teaches(smallest) is expected

    def test_a_batch_in_no_doubt_teaches_nothing(self, encoder, gallery, batches):
        session = Session(encoder, gallery, lr=0.01)
        in_doubt(session, SURE).answer(batches[0])
        assert session.state.adapted.updates == 0 and not session.stats().adapted
        in_doubt(session).answer(batches[0])
        assert session.state.adapted.updates == 3 and session.stats().adapted


class TestSteps:
    @pytest.mark.parametrize("size", [1, 2, 7, 12, 64])
    @pytest.mark.parametrize("share", [1 / 3, 0.5, 0.71, 0.99])
    @pytest.mark.parametrize("steps", [3, 5])
    def test_together_see_every_query_that_teaches(self, size, share, steps):
        for rows in (None, torch.arange(size) % 3 != 1):
            teaching = torch.ones(size, dtype=torch.bool) if rows is None else rows
            parts = [step_rows(rows, size, share, step, steps) for step in range(steps)]
            assert torch.equal(torch.stack(parts).any(dim=0), teaching)
            assert {int(one.sum()) for one in parts} == {math.ceil(share * int(teaching.sum()))}

    def test_of_a_whole_share_take_all_that_teach(self):
        rows = torch.arange(9) % 2 == 0
        assert step_rows(rows, 9, 1.0, 2, 3) is rows and step_rows(None, 9, 1.0, 0, 3) is None

    @pytest.mark.parametrize("chance", [0.39, 0.41])
    def test_go_as_far_as_the_source_is_in_doubt(self, chance, encoder, gallery, batches):
        settings = {"lr": 1e-3, "steps": 1}
        moved = []
        for before in (FULL, torch.full((LATEST,), chance)):
            session = in_doubt(Session(encoder, gallery, REST(), **settings), before)
            source = Forward(encoder.encode(batches[0]), gallery)
            doubted = assess(source, asked_before(encoder, gallery, before), Guard()).doubt
            session.answer(batches[0])
            source = session.state.layout.flat(session.adaptation.source)
            moved.append((doubted, session.state.adapted.values - source))
        (full, far), (some, near) = moved
        assert full == 1 and 0 < some < 1
        assert torch.allclose(near, some * far, atol=1e-6)


class TestWhoAnswers:
    @pytest.mark.parametrize(("chances", "forwards"), [(SURE, 1), (FULL, 2), (None, 2)])
    def test_a_model_without_weight_is_not_asked(self, chances, forwards, learnt, batches, count):
        if chances is not None:
            in_doubt(learnt, chances)
        several = answer_many, lambda sessions, asked: [sessions[0].answer(asked[0], adapt=False)]
        for ask in several:
            count.restart()
            (answer,) = ask([learnt], [batches[3]])
            answer.top(5)
            assert (count.forwards, count.products) == (forwards, 0)
            assert isinstance(answer.ranking, FusedRanking) is (forwards == 2)

    def test_before_anything_is_learnt_there_is_one_model(self, encoder, gallery, batches, count):
        session = in_doubt(Session(encoder, gallery))
        session.answer(batches[0], adapt=False).top(5)
        assert count.forwards == 1

    def test_the_source_alone_is_uncorrected(self, learnt, batches):
        answer = in_doubt(learnt, SURE).answer(batches[3], adapt=False)
        expected = learnt.gallery.search(learnt.encoder.encode(batches[3]), 20)
        assert torch.equal(answer.top(20).positions, expected.positions)

    @pytest.mark.parametrize("size", [1, 12])
    @pytest.mark.parametrize("chances", [SURE, FULL, torch.full((LATEST,), 0.42)])
    @pytest.mark.parametrize("hubs", [Hubs(), None])
    def test_is_the_same_at_every_door(self, size, chances, hubs, learnt, batches):
        learnt = in_doubt(twin(learnt, hubs=hubs), chances)
        groups = [batches[3][i : i + size] for i in range(0, 12, size)]
        shadow, gathering = twin(learnt, mode="shadow"), twin(learnt, gather=99)
        together = answer_many([learnt] * len(groups), groups, hits=20)
        for group, mixed in zip(groups, together, strict=True):
            expected = learnt.answer(group, adapt=False).top(20)
            for other in (
                answer_many([learnt], [group])[0],
                mixed,
                shadow.answer(group, adapt=False).adapted,
                gathering.answer(group),
            ):
                assert torch.equal(other.top(20).positions, expected.positions)
                assert torch.allclose(other.top(20).scores, expected.scores, atol=1e-5)

    def test_single_queries_to_a_large_gallery_are_answered_by_both(self, encoder, batches):
        """Of 2,016 candidates and more, a session keeps no top-1 results of single queries."""
        width = encoder.encode(batches[0]).shape[1]
        vectors = torch.randn(2016, 1, width, generator=torch.Generator().manual_seed(0))
        session = in_doubt(Session(encoder, Gallery(range(2016), normalize(vectors, dim=2)), lr=1))
        session.answer(batches[0])
        assert session.state.adapted.updates > 0
        for one in batches[3]:
            answer = in_doubt(session).answer([one], adapt=False)
            assert isinstance(answer.ranking, FusedRanking)
            again = in_doubt(twin(session, gather=99)).answer([one])
            assert torch.equal(again.top(9).positions, answer.top(9).positions)

    def test_in_full_doubt_the_adapted_model_has_the_larger_weight(self, learnt, batches):
        session = in_doubt(twin(learnt, hubs=None))
        answer = session.answer(batches[3], adapt=False)
        source = Forward(session.encoder.encode(batches[3]), session.gallery)
        adapted = Forward(answer.vectors, session.gallery)
        expected = FusedRanking(source, adapted, MOST).hits(20)
        assert not torch.allclose(source.vectors, adapted.vectors, atol=1e-2)
        assert torch.equal(answer.top(20).positions, expected.positions)
        assert torch.allclose(answer.top(20).scores, expected.scores, atol=1e-5)

    def test_the_batch_that_taught_is_answered_by_both(self, learnt, batches):
        settings = {"score_from": "after"}
        session = in_doubt(twin(learnt, **settings))
        answer = session.answer(batches[3])
        assert session.stats().adapted and isinstance(answer.ranking, FusedRanking)
        again = in_doubt(session).answer(batches[3], adapt=False)
        assert torch.allclose(answer.top(9).scores, again.top(9).scores, atol=1e-5)
        assert not torch.equal(answer.top(9).positions, answer.source.top(9).positions)


class TestTheRateOfTheStream:
    def first(self, encoder, gallery, batch, **settings):
        """A session whose first step is at the rate itself, after it, and its answer."""
        session = in_doubt(Session(encoder, gallery, InfoMax(), steps=1, **settings))
        answer = session.answer(batch)
        return session, answer

    @pytest.mark.parametrize("make", [Toy, lambda: Toy(seed=3), SharedToy])
    def test_moves_query_vectors_by_a_set_way(self, make, clean, batches):
        toy = make()
        gallery = Gallery.build(toy, clean)
        settings = {"score_from": "after"}
        for batch in batches:
            session, answer = self.first(toy, gallery, batch, **settings)
            before = toy.encode(batch)
            way = torch.linalg.vector_norm(answer.vectors - before, dim=1).mean()
            wanted = MOVE * gallery_spread(gallery, before)
            assert float(way / wanted) == pytest.approx(1, abs=0.25)
            assert session.state.rate > 0

    @pytest.mark.parametrize("factor", [0.03, 30])
    def test_is_the_same_wherever_the_search_begins(
        self, factor, encoder, gallery, batches, monkeypatch
    ):
        expected = self.first(encoder, gallery, batches[0])[0].state.rate
        monkeypatch.setattr(policy, "FIRST_RATE", policy.FIRST_RATE * factor)
        found = self.first(encoder, gallery, batches[0])[0].state.rate
        assert found == pytest.approx(expected, rel=0.1)

    def test_is_found_once_and_kept_in_state_and_file(self, encoder, gallery, batches, tmp_path):
        session = in_doubt(Session(encoder, gallery))
        assert session.state.rate == 0
        session.answer(batches[0])
        rate = session.state.rate
        session.answer(batches[1])
        assert session.state.rate == rate > 0
        session.save(tmp_path / "s")
        again = Session.load(tmp_path / "s", encoder, gallery)
        assert again.state.rate == rate and again.adaptation.finds_rate
        assert same(again.answer(batches[2]).vectors, session.answer(batches[2]).vectors)

    @pytest.mark.parametrize("way", ["fork", "file"])
    def test_is_found_by_a_session_that_goes_on_before_its_first_batch(
        self, way, encoder, gallery, batches, tmp_path
    ):
        session = in_doubt(Session(encoder, gallery))
        session.save(tmp_path / "s")
        other = session.fork() if way == "fork" else Session.load(tmp_path / "s", encoder, gallery)
        for one in (session, other):
            one.answer(batches[0])
        assert session.state.rate == other.state.rate > 0

    def test_is_found_anew_after_a_reset(self, encoder, gallery, batches):
        session = in_doubt(Session(encoder, gallery))
        session.answer(batches[0])
        for one in (session, session.fork()):
            one.reset()
            assert one.state.rate == 0
            in_doubt(one).answer(batches[1])
            assert one.state.rate > 0

    def test_what_the_user_says_wins(self, encoder, gallery, batches, tmp_path):
        for session in (
            Session(encoder, gallery, lr=2e-4),
            Session(encoder, gallery, InfoMax(lr=2e-4)),
        ):
            in_doubt(session).answer(batches[0])
            assert session.state.rate == 0 and session.method.rate == 2e-4
            assert session.state.adapted.updates == 3
        free = in_doubt(Session(encoder, gallery))
        free.save(tmp_path / "s")
        told = Session.load(tmp_path / "s", encoder, gallery, lr=2e-4)
        told.answer(batches[0])
        assert told.state.rate == 0 and same(told.params, session.params)

    def test_what_the_user_says_later_wins_over_a_rate_that_was_found(
        self, encoder, gallery, batches, tmp_path
    ):
        session = in_doubt(Session(encoder, gallery))
        session.answer(batches[0])
        session.save(tmp_path / "s")
        slow = Session.load(tmp_path / "s", encoder, gallery, lr=session.state.rate / 1000)
        before, moved = session.state.adapted.values, []
        for one in (session, slow):
            one.answer(batches[1])
            moved.append(float((one.state.adapted.values - before).norm()))
        assert moved[0] > 10 * moved[1]

    def test_what_the_encoder_recommends_wins(self, clean, batches):
        toy = Toy()
        toy.recommended = {"infomax": {"lr": 3e-4}, "*": {"lr": 0.1}}
        session = in_doubt(Session(toy, Gallery.build(toy, clean)))
        session.answer(batches[0])
        assert session.state.rate == 0 and session.method.rate == 3e-4
        assert session.state.adapted.updates == 3

    def test_what_it_recommends_for_all_methods_is_for_the_published_ones(self, clean, batches):
        toy = Toy()
        toy.recommended = {"*": {"lr": 3e-4}}
        gallery = Gallery.build(toy, clean)
        session = in_doubt(Session(toy, gallery))
        session.answer(batches[0])
        assert session.state.rate > 0 and session.method.rate != 3e-4
        assert Session(toy, gallery, Refined(InfoMax())).method.rate != 3e-4
        assert Session(toy, gallery, REST()).method.rate == 3e-4

    @pytest.mark.parametrize("method", [REST(), Refined(InfoMax())], ids=lambda one: one.name)
    def test_other_methods_have_their_own(self, method, encoder, gallery, batches):
        session = in_doubt(Session(encoder, gallery, method))
        session.answer(batches[0])
        assert session.state.rate == 0 and session.state.adapted.updates == 3


class TestWithoutAGuard:
    def test_a_session_is_the_bare_method_bit_for_bit(self, encoder, gallery, batches):
        session = Session(encoder, gallery, guard=None, lr=2e-3, steps=3)
        method, source = session.method, dict(session.adaptation.source)
        reached = [name for name in source if not name.startswith("spare")]
        layout = Layout.of({name: source[name] for name in reached})
        adapted, memory = Adapted.fresh(layout.flat(source)), method.start(gallery, CPU)
        for number, queries in enumerate(batches):
            batch = Batch(encoder, gallery, encoder.ready(queries))
            share = method.step_share(memory)
            for step in range(3):
                params = {**source, **layout.split(adapted.values)} if number or step else source
                rows = step_rows(None, 12, share, step, 3)
                view = StepView(
                    batch if rows is None else batch.taking(rows), params, source, seed=0
                )
                memory = method.observe(view.now, memory, step)
                update = method.gradient(view, memory)
                slopes = layout.flat(update.gradient)
                rate = method.rate * update.rate
                adapted = adapted.updated(method.optimiser, slopes, rate, method.weight_decay)
            answer = session.answer(queries)
            params = {**source, **layout.split(adapted.values)}
            vectors = batch.forward(params, graph=False).vectors
            assert torch.equal(session.state.adapted.values, adapted.values)
            assert torch.equal(answer.vectors, vectors)
            assert same(answer.top(9).positions, gallery.search(vectors, 9).positions)
            assert same(answer.top(9).scores, gallery.search(vectors, 9).scores)
        assert session.state.hubs is None and same(session.state.chances, no_doubt(CPU))

    def test_queries_in_no_doubt_and_repeats_teach_too(self, encoder, gallery, batches):
        session = Session(encoder, gallery, guard=None)
        in_doubt(session, SURE).answer(batches[0][:1] * 12)
        assert session.state.adapted.updates == 3 and session.state.rate > 0

    def test_only_the_adapted_model_answers(self, encoder, gallery, batches, count):
        session = Session(encoder, gallery, guard=None)
        session.answer(batches[0])
        count.restart()
        session.answer(batches[1], adapt=False).top(5)
        assert count.forwards == 1


def test_a_batch_that_blows_up_after_a_part_of_it_was_learnt_is_answered_whole(
    encoder, gallery, batches, tmp_path
):
    calm = Session(encoder, gallery, InfoMax(lr=1e-3), guard=None)
    calm.answer(batches[0])
    calm.save(tmp_path / "state")
    wild = Session.load(tmp_path / "state", encoder, gallery, lr=1e39, steps=1)
    with pytest.warns(GuardWarning, match="not finite"):
        answer = wild.answer(batches[1])
    assert len(answer.top(3).ids) == len(batches[1])
    assert wild.state.adapted.updates == calm.state.adapted.updates
