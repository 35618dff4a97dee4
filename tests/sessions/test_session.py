"""A session: answers, undo, fork, gathering, exclusion, shadow, and another gallery."""

import copy
import pickle

import pytest
import torch
from torch.nn.functional import normalize

from miniature import Toy, items, memory_of, same
from queryshift import EATA, METHODS, REST, SAR, TSA, Decoupled, Frozen, Gallery, Session, Tent
from queryshift.errors import BadInput, GalleryMismatch, UnknownName


@pytest.fixture
def session(encoder, gallery):
    return Session(encoder, gallery, REST(), lr=0.01)


def frozen(encoder, gallery, batch, **left_out):
    return Session(encoder, gallery, Frozen()).answer(batch, **left_out).top(10)


class TestAnswer:
    def test_the_frozen_model_answers_as_a_search_does(self, encoder, gallery, batches):
        found = frozen(encoder, gallery, batches[0])
        plain = gallery.search(encoder.encode(batches[0]), 10)
        assert torch.equal(found.positions, plain.positions)
        assert found.ids[0][0] == gallery.ids[plain.positions[0, 0]]

    def test_comes_from_the_last_forward_before_or_after(self, encoder, gallery, batches):
        def answered(score_from, steps=3, at=0):
            settings = {"steps": steps, "score_from": score_from, "guard": None}
            session = Session(encoder, gallery, Tent(), lr=0.01, **settings)
            return [session.answer(batch).vectors for batch in batches[:2]][at]

        source = encoder.encode(batches[0])
        assert torch.equal(answered("before"), source)
        assert torch.equal(answered("last_forward", steps=1), source)
        assert torch.equal(answered("last_forward"), answered("after", steps=2))
        session = Session(encoder, gallery, Tent(), lr=0.01, guard=None)
        session.answer(batches[0])
        seen = session.answer(batches[0], adapt=False)
        assert torch.equal(answered("after"), seen.vectors)
        assert not torch.equal(answered("before", at=1), encoder.encode(batches[1]))

    def test_without_adapting_nothing_is_learnt(self, session, batches):
        session.answer(batches[0])
        before = session.state.adapted
        session.answer(batches[1], adapt=False)
        assert same(session.state.adapted, before)
        assert session.stats().adapted is False

    def test_more_steps_go_further(self, encoder, gallery, batches):
        for steps in (1, 5):
            session = Session(encoder, gallery, Tent(), steps=steps)
            session.answer(batches[0])
            assert session.state.adapted.updates == steps

    def test_more_is_found_than_was_searched_for_while_adapting(self, session, gallery, batches):
        found = session.answer(batches[0])
        assert found.top(60).positions.shape == (12, 60)
        assert found.top(3).ids == [row[:3] for row in found.top(60).ids]


def test_a_norm_layer_that_is_reached_late_stays_out_and_the_optimiser_goes_on(gallery, batches):
    class Sometimes(Toy):
        late = False

        def finish_from(self, hidden):
            return super().finish_from(self.spare(hidden) if Sometimes.late else hidden)

    session = Session(Sometimes(), gallery, Tent(), lr=0.01)
    for batch in batches[:2]:
        session.answer(batch)
        Sometimes.late = True
    assert session.state.adapted.updates == 6
    assert "spare.weight" not in session.params


class TestLearningRate:
    def test_the_session_wins_over_the_method_over_the_encoder(self, gallery):
        toy = Toy()
        toy.recommended = {"tent": {"lr": 0.5, "temperature": 0.7}, "*": {"lr": 0.25}}
        assert Session(toy, gallery, Tent(lr=0.1), lr=0.2).method.lr == 0.2
        assert Session(toy, gallery, Tent(lr=0.1)).method.lr == 0.1
        assert Session(toy, gallery, Tent()).method.lr == 0.5
        assert Session(toy, gallery, Tent()).method.temperature == 0.7
        assert Session(toy, gallery, REST()).method.lr == 0.25
        assert Session(toy, gallery, REST()).method.temperature == 0.02

    def test_a_wrapped_method_is_advised_by_its_own_name_first(self, gallery):
        toy = Toy()
        toy.recommended = {"tent+decoupled": {"lr": 0.5}, "tent": {"lr": 0.25}}
        assert Session(toy, gallery, Decoupled(Tent())).method.lr == 0.5
        assert Session(toy, gallery, Decoupled(Tent()), lr=0.1).method.method.lr == 0.1
        del toy.recommended["tent+decoupled"]
        assert Session(toy, gallery, Decoupled(Tent())).method.lr == 0.25


class TestUndoAndFork:
    @pytest.mark.parametrize("name", METHODS)
    def test_undo_returns_to_the_state_before_the_last_batch(self, name, encoder, gallery, batches):
        session = Session(encoder, gallery, METHODS[name](), lr=0.01)
        session.answer(batches[0])
        before, history = session.state, list(session.history)
        second = session.answer(batches[1]).top(5)
        session.undo()
        assert same((session.state, session.history), (before, history))
        assert same(session.answer(batches[1]).top(5), second)

    def test_undo_reaches_one_batch_back(self, session, batches):
        with pytest.raises(BadInput, match="no batch to undo"):
            session.undo()
        session.answer(batches[0])
        session.undo()
        with pytest.raises(BadInput, match="no batch to undo"):
            session.undo()

    def test_a_fork_goes_its_own_way(self, session, batches):
        session.answer(batches[0])
        twin = session.fork()
        assert same(memory_of(twin), memory_of(session))
        before = memory_of(session)[0]
        twin.answer(batches[1])
        assert same(session.state, before)
        assert (len(session.history), len(twin.history)) == (1, 2)
        assert same(session.answer(batches[2]).top(5), self._without_fork(session, batches))

    @pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
    def test_a_copy_is_a_fork(self, how, session, batches):
        session.answer(batches[0])
        twin = how(session)
        assert (twin.encoder, twin.gallery) == (session.encoder, session.gallery)
        twin.answer(batches[1])
        assert (len(session.history), len(twin.history)) == (1, 2)

    def test_pickling_says_how_a_session_travels(self, session):
        with pytest.raises(BadInput, match=r"cannot be pickled: save\(path\)"):
            pickle.dumps(session)

    def _without_fork(self, session, batches):
        alone = Session(session.encoder, session.gallery, REST(), lr=0.01)
        alone.answer(batches[0])
        return alone.answer(batches[2]).top(5)


class TestGathering:
    def queries(self, batches):
        return [query for batch in batches for query in batch]

    def test_single_queries_are_answered_at_once_and_adapted_to_in_turn(
        self, encoder, gallery, batches
    ):
        single = Session(encoder, gallery, REST(), lr=0.01, gather=16)
        whole = Session(encoder, gallery, REST(), lr=0.01)
        queries = self.queries(batches)
        for number, query in enumerate(queries):
            expected = whole.fork().answer([query], adapt=False).top(3)
            assert same(single.answer([query]).top(3), expected)
            if number % 16 == 15:
                whole.answer(queries[number - 15 : number + 1])
            assert same(single.state.adapted, whole.state.adapted)
        assert [one.queries for one in single.history] == [16, 16, 16]
        assert len(single._updater.gathered) == 60 - 48

    def test_how_the_queries_arrive_does_not_matter(self, encoder, gallery, batches):
        queries = self.queries(batches)
        states = []
        for size in (1, 7, 60):
            session = Session(encoder, gallery, REST(), lr=0.01, gather=16)
            for start in range(0, 60, size):
                session.answer(queries[start : start + size])
            states.append((session.state, session.history))
        assert same(states[0], states[1])
        assert same(states[0], states[2])

    def test_queries_that_are_not_to_be_learnt_from_are_not_gathered(
        self, encoder, gallery, batches
    ):
        session = Session(encoder, gallery, REST(), gather=16)
        session.answer(batches[0], adapt=False)
        assert session._updater.gathered == []

    def test_each_keeps_its_exclusions(self, encoder, gallery, batches):
        single, whole = (Session(encoder, gallery, REST(), lr=0.01, gather=g) for g in (12, None))
        left_out = [["c3"], [], ["c5", "c6"], *[None] * 9]
        for query, ids in zip(batches[0], left_out, strict=True):
            single.answer([query], exclude=[ids])
        whole.answer(batches[0], exclude=left_out)
        assert same(single.state.adapted, whole.state.adapted)

    def test_a_fork_keeps_them_and_gathers_on_alone(self, encoder, gallery, batches):
        session = Session(encoder, gallery, REST(), lr=0.01, gather=16)
        queries = self.queries(batches)
        session.answer(queries[:10])
        twin = session.fork()
        twin.answer(queries[10:16])
        assert [one.queries for one in twin.history] == [16]
        assert session.history == []
        session.answer(queries[10:16])
        assert [one.queries for one in session.history] == [16]
        assert same(twin.state, session.state)

    def test_reset_drops_them_and_a_saved_state_lacks_them(
        self, encoder, gallery, batches, tmp_path
    ):
        session = Session(encoder, gallery, REST(), gather=16)
        session.answer(batches[0])
        session.save(tmp_path / "kept")
        assert Session.load(tmp_path / "kept", encoder, gallery)._updater.gathered == []
        session.reset()
        assert session._updater.gathered == []


class TestExclude:
    def test_a_candidate_left_out_is_not_found(self, encoder, gallery, batches):
        plain = frozen(encoder, gallery, batches[0])
        first = [row[0] for row in plain.ids]
        for left_out in (first, [[one] for one in first]):
            found = frozen(encoder, gallery, batches[0], exclude=left_out)
            assert [row[:9] for row in found.ids] == [row[1:] for row in plain.ids]

    def test_nor_adapted_to(self, encoder, clean, batches):
        more = [
            *clean,
            *items(2, seed=1),
        ]  # so that the doubt looks at as many best with and without
        gallery = Gallery.build(encoder, more, ids=[f"c{i}" for i in range(62)])
        left_out = [["c0", "c7"]] * 12
        less = gallery.remove(["c0", "c7"])
        for name in ("tent", "rest", "tcr", "shot"):
            sessions = [Session(encoder, g, METHODS[name](), steps=1) for g in (gallery, less)]
            less._centroids[10] = gallery.centroids(10)
            for batch in batches[:2]:
                with_all = sessions[0].answer(batch, exclude=left_out)
                without = sessions[1].answer(batch)
            assert with_all.top(10).ids == without.top(10).ids
            one, other = (session.state.adapted.values for session in sessions)
            assert torch.allclose(one, other, atol=1e-5)

    def test_ids_may_be_numbers(self, encoder, clean, batches):
        gallery = Gallery.build(encoder, clean)
        found = frozen(encoder, gallery, batches[0], exclude=[5] * 12)
        assert 5 not in {one for row in found.ids for one in row}

    def test_mistakes_are_explained(self, session, batches):
        with pytest.raises(BadInput, match="exclusions for 1 of 12 queries"):
            session.answer(batches[0], exclude=["c1"])
        with pytest.raises(BadInput, match="no candidate has the id 'dog'"):
            session.answer(batches[0], exclude=["dog"] * 12)
        with pytest.raises(BadInput, match="all 60 candidates are excluded"):
            session.answer(batches[0], exclude=[session.gallery.ids] * 12)
        assert session.history == []


class TestShadow:
    def test_answers_with_the_source_and_adapts_beside_it(self, encoder, gallery, batches):
        shadow = Session(encoder, gallery, REST(), lr=0.05, mode="shadow")
        live = Session(encoder, gallery, REST(), lr=0.05)
        for batch in batches:
            source, adapted = frozen(encoder, gallery, batch), live.answer(batch).top(10)
            assert same(shadow.answer(batch).top(10), source)
            differs = source.positions[:, 0] != adapted.positions[:, 0]
            assert shadow.stats().disagreement == pytest.approx(float(differs.float().mean()))
        assert same(shadow.state.adapted, live.state.adapted)
        assert any(one.disagreement > 0 for one in shadow.history)
        assert live.stats().disagreement is None

    def test_gathers_too(self, encoder, gallery, batches):
        shadow = Session(encoder, gallery, REST(), lr=0.05, mode="shadow", gather=6)
        for batch in batches[:2]:
            assert same(shadow.answer(batch).top(10), frozen(encoder, gallery, batch))


class TestAnotherGallery:
    def test_a_session_goes_on_with_other_candidates(self, encoder, gallery, batches):
        for method in (REST(), EATA(), TSA()):
            session = Session(encoder, gallery, method, lr=0.01)
            session.answer(batches[0])
            learnt = session.state.adapted
            session.gallery = gallery.remove(["c0"]).add(encoder, items(5, seed=8), ids=range(5))
            assert same(session.state.adapted, learnt)
            assert session.answer(batches[1]).top(64).positions.shape == (12, 64)

    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("size", [60, 57], ids=["as many", "fewer"])
    def test_and_the_state_before_it_forget_other_candidates(
        self, name, size, encoder, gallery, batches
    ):
        """What was familiar among the old candidates means nothing among the new."""
        session = Session(encoder, gallery, METHODS[name](), lr=0.01)
        for batch in batches[:2]:
            session.answer(batch)
        other = Gallery.build(encoder, items(size, seed=8))
        session.gallery = other
        session.undo()
        fresh = Session(encoder, gallery, METHODS[name](), lr=0.01)
        fresh.answer(batches[0])
        fresh.gallery = other
        assert same(session.answer(batches[2]).top(5), fresh.answer(batches[2]).top(5))
        assert same(memory_of(session), memory_of(fresh))

    def test_forgets_what_gathering_queries_left_out_of_the_old_one(
        self, encoder, gallery, batches
    ):
        session = Session(encoder, gallery, REST(), lr=0.01, gather=3)
        session.answer(batches[0][:1], exclude=[["c1", "c2"]])
        session.answer(batches[0][1:2], exclude=[gallery.ids[2:]])
        session.gallery = gallery.remove(["c0", "c1"])
        session.answer(batches[0][2:4])
        assert session.state.adapted.updates == 3  # two came, one had gathered, one has nothing

    def test_of_the_same_dimension_only(self, session):
        before = session.gallery
        with pytest.raises(GalleryMismatch, match="3 dimensions, this session's vectors have 8"):
            session.gallery = Gallery.from_vectors("ab", torch.eye(3)[:2])
        assert session.gallery is before


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"steps": 0}, BadInput, "steps is 0, expected a whole number of at least 1"),
        ({"gather": 2.5}, BadInput, "gather is 2.5"),
        ({"chunk": -1}, BadInput, "chunk is -1"),
        ({"score_from": "afterwards"}, UnknownName, 'did you mean "after"'),
        ({"mode": "shade"}, UnknownName, 'did you mean "shadow"'),
        ({"lr": -1.0}, BadInput, "lr is -1.0, expected a number of at least 0"),
        ({"steps": True}, BadInput, "steps is True, expected a whole number"),
        ({"seed": None}, BadInput, "seed is None, expected a whole number"),
        ({"watch_angle": "no"}, BadInput, "watch_angle is 'no', expected true or false"),
        ({"guard": True}, BadInput, r"guard is True, expected a guard or none: guard=Guard\(\)"),
    ],
)
def test_settings_that_cannot_work_are_refused(encoder, gallery, settings, error, text):
    with pytest.raises(error, match=text):
        Session(encoder, gallery, Tent(), **settings)


@pytest.mark.parametrize("keep_average", [False, True])
def test_a_restart_keeps_what_the_method_asks_for(keep_average, encoder, gallery, batches):
    """SAR's official quirk: the small moving loss survives, so that it restarts again."""
    method = SAR(reset_below=1e9, keep_average=keep_average)
    session = Session(encoder, gallery, method, lr=0.01, steps=1)
    session.answer(batches[0])
    assert session.state.resets == 1
    assert (session.state.memory is not None) == keep_average
    assert same(session.params, session.adaptation.source)


class Sometimes(Toy):
    """A batch with a first item below zero does not go through the second part."""

    def finish_from(self, hidden):
        if bool(hidden[0, 0] < 0.5):
            return normalize(self.last(hidden), dim=1)
        return super().finish_from(hidden)


def test_layers_that_some_batches_do_not_reach_stay_learnt(clean, batches):
    toy = Sometimes()
    first = [bool(toy.first(torch.stack(batch))[0, 0] < 0.5) for batch in batches]
    reaching, passing = batches[first.index(False)], batches[first.index(True)]
    session = Session(toy, Gallery.build(toy, clean), Tent(), lr=0.01, steps=1)
    session.answer(reaching)
    learnt, before = session.params, session.state.adapted
    session.answer(passing)
    assert session.params.keys() == learnt.keys() > {"last.0.weight"}
    assert session.state.adapted.updates == 2  # and the optimiser's moments went on
    unreached = session.state.layout.split(session.state.adapted.first)["second.1.weight"]
    earlier = session.state.layout.split(before.first)["second.1.weight"]
    assert torch.allclose(unreached, 0.9 * earlier)


def test_the_history_has_an_end(encoder, gallery, batches):
    session = Session(encoder, gallery, REST(), history=3)
    for batch in batches[:5]:
        session.answer(batch, adapt=False)
    assert [one.batch for one in session.history] == [3, 4, 5]
    session.undo()
    assert [one.batch for one in session.history] == [3, 4]


def test_an_encoder_that_was_moved_says_so(gallery, batches):
    toy = Toy()
    session = Session(toy, gallery, REST())
    toy.to("meta")
    with pytest.raises(BadInput, match=r"on meta, but was on cpu.*Session\.load"):
        session.answer(batches[0])


def test_gathering_fewer_than_a_method_learns_from_is_refused(encoder, gallery):
    with pytest.raises(BadInput, match="gather is 1, but rest learns from at least 2 queries"):
        Session(encoder, gallery, REST(), gather=1)
    Session(encoder, gallery, Tent(), gather=1)
