"""What a session reports of the shift, batch by batch."""

from dataclasses import asdict

import pytest
import torch

from miniature import same
from queryshift import METHODS, REST, SAR, TCR, Decoupled, Frozen, Session, Tent
from queryshift.errors import BadInput
from queryshift.lab.evaluation import ranks as metrics
from queryshift.methods.losses import entropy
from queryshift.retrieval.refinement import refine


@pytest.fixture
def session(encoder, gallery):
    return lambda method, **settings: Session(encoder, gallery, method, lr=0.01, **settings)


def test_the_measures_are_those_of_the_answer(session, gallery, batches):
    for method in (Frozen(), REST()):
        asked = session(method, guard=None)
        answer = asked.answer(batches[0])
        shift, nearest = asked.stats(), answer.top(1).vectors[:, 0, 0]
        assert (shift.batch, shift.queries) == (1, 12)
        assert shift.spread == pytest.approx(metrics.spread(answer.vectors))
        assert shift.gap == pytest.approx(metrics.gap(answer.vectors, nearest))
        assert shift.similarity == pytest.approx(float((answer.vectors * nearest).sum(1).mean()))
        prediction = refine(answer.vectors, gallery)
        assert shift.entropy == pytest.approx(float(entropy(prediction.logits).mean()), rel=1e-4)


@pytest.mark.parametrize("method", [REST(), TCR()])
def test_the_source_like_gap_is_that_of_the_queue(session, batches, method):
    asked = session(method)
    for batch in batches[:3]:
        asked.answer(batch)
        pairs = asked.state.memory
        expected = metrics.gap(pairs.queries, pairs.candidates)
        assert asked.stats().source_gap == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reports_the_source_like_gap_and_who_is_reliable(session, batches, name):
    asked = session(METHODS[name]())
    for batch in batches[:3]:
        asked.answer(batch)
        assert asked.stats().source_gap > 0
        assert 0 <= asked.stats().reliable <= 1


def test_the_frozen_model_reports_what_the_source_like_pairs_show(session, batches):
    """The pairs with the smallest distance of Eq. 6, from the first ten batches."""
    asked = session(Frozen())
    for batch in batches * 3:
        asked.answer(batch)
    assert asked.state.watched.batches == 10
    distances = asked.state.watched.distances
    assert torch.equal(distances, distances.sort().values)


def test_history_keeps_every_batch(session, batches):
    asked = session(REST())
    with pytest.raises(BadInput, match="there are no statistics yet: answer a batch first"):
        asked.stats()
    for number, batch in enumerate(batches):
        asked.answer(batch, adapt=number != 2)
    assert [one.batch for one in asked.history] == [1, 2, 3, 4, 5]
    assert [one.adapted for one in asked.history] == [True, True, False, True, True]
    assert asked.history[-1] == asked.stats()


def test_a_batch_of_one_is_only_scored_by_methods_that_need_a_spread(session, batches):
    for method, adapted in ((REST(), False), (TCR(), False), (Tent(), True)):
        asked = session(method)
        asked.answer(batches[0][:1])
        assert asked.stats().adapted is adapted


def test_sars_own_resets_are_counted(session, batches):
    asked = session(SAR(reset_below=99.0), steps=2)
    asked.answer(batches[0])
    assert asked.stats().resets == 2
    assert asked.stats().restart == "sar reset the session by itself"


class TestAngles:
    def test_are_not_measured_unless_asked_for(self, session, batches):
        asked = session(Tent())
        for batch in batches[:2]:
            asked.answer(batch)
        found = asdict(asked.stats())
        assert {found[name] for name in ("drift", "domain_angle", "applied_angle")} == {None}

    def test_do_not_exist_at_the_source(self, session, batches):
        asked = session(Tent(), watch_angle=True, steps=1)
        asked.answer(batches[0])
        assert asked.stats().drift is None
        asked.answer(batches[1])
        assert asked.stats().drift > 0

    @pytest.mark.parametrize("name", ["tent", "rest", "tcr", "read", "tsa", "shot"])
    def test_without_decoupling_the_applied_gradient_is_the_domains(self, session, batches, name):
        asked = session(METHODS[name](), watch_angle=True)
        for batch in batches[:2]:
            asked.answer(batch)
        assert 0 <= asked.stats().domain_angle <= 180
        assert asked.stats().applied_angle == asked.stats().domain_angle

    @pytest.mark.parametrize("method", [REST(decouple=True), Decoupled(Tent(temperature=0.3))])
    def test_with_decoupling_the_applied_gradient_never_points_against(
        self, session, batches, method
    ):
        asked = session(method, steps=1)
        for batch in batches:
            asked.answer(batch)
        later = asked.history[1:]
        assert all(one.applied_angle <= 90.1 for one in later)
        assert any(one.domain_angle > 90.1 for one in later)
        assert all(
            one.applied_angle == pytest.approx(one.domain_angle, abs=0.1)
            for one in later
            if one.domain_angle < 90
        )

    def test_measuring_changes_nothing(self, session, batches):
        watched, plain = session(REST(), watch_angle=True), session(REST())
        for batch in batches:
            assert same(watched.answer(batch).top(5), plain.answer(batch).top(5))
        assert same(watched.state, plain.state)


def test_source_like_pairs_come_from_the_first_ten_batches_of_several_queries(session, batches):
    tent = session(Tent())
    tent.answer(batches[0][:1])
    assert tent.state.watched.batches == len(tent.state.watched) == 0
    kept = []
    for number in range(12):
        tent.answer(batches[number % 5][: 2 if number == 11 else 12])
        kept.append(tent.state.watched)
    assert [one.batches for one in kept] == [*range(1, 11), 10, 10]
    assert kept[11] is kept[10] is kept[9]
    assert len(kept[0]) == 3 and [len(one) for one in kept[5:]] == [16] * 7  # 30 %, at most 16
