"""Bad input gets one clear error, and the session is exactly as before."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import pytest
import torch

from miniature import ITEM, NoNorms, Remote, Toy, items, memory_of, same
from queryshift import (
    EATA,
    METHODS,
    REST,
    SAR,
    Decoupled,
    Error,
    Gallery,
    Guard,
    Refined,
    Session,
    Tent,
)
from queryshift.errors import BadInput, CannotAdapt, GalleryMismatch, NeedsVectors
from queryshift.methods.eata import fisher_of
from queryshift.methods.losses import LIMIT_MARGIN

WHOLE_GALLERY = ("tent", "pl", "shot", "eata", "sar", "read", "come", "tsa")
HITS_ONLY = ("frozen", "tcr", "rest", "infomax", "tcr_untrained")


class Faulty(Toy):
    """A toy that goes wrong in one way when it is told to."""

    fault = None

    def forward(self, prepared):
        vectors = super().forward(prepared)
        return vectors if Faulty.fault is None else Faulty.fault(vectors)


def spoilt(value: float) -> list[torch.Tensor]:
    found = items(4)
    found[1][3] = value
    return found


@pytest.fixture
def session(clean, batches):
    toy = Faulty()
    session = Session(toy, Gallery.build(toy, clean), REST(), lr=0.01, gather=None)
    session.answer(batches[0])
    return session


@pytest.fixture
def fault(monkeypatch):
    return lambda function: monkeypatch.setattr(Faulty, "fault", staticmethod(function))


def refuses(session, queries, error, text):
    before = memory_of(session)
    before = (*before[:2], list(before[2]), list(before[3]))
    with pytest.raises(error, match=text) as raised:
        session.answer(queries)
    assert isinstance(raised.value, Error)
    assert same(memory_of(session), before)


class TestQueries:
    def test_an_empty_batch(self, session):
        refuses(session, [], BadInput, "got an empty batch, expected at least one")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_items_that_are_not_finite(self, session, value):
        refuses(session, spoilt(value), BadInput, r"item 1 holds NaN or infinite.*1 of 4 do.*drop")

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_vectors_that_are_not_finite(self, session, fault, value):
        fault(lambda vectors: vectors.index_fill(0, torch.tensor([2]), value))
        refuses(session, items(4), BadInput, "the vector of query 2 holds NaN or infinite")

    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("wrap", [lambda method: method, Decoupled, Refined])
    @pytest.mark.parametrize("guard", [None, Guard()], ids=["plain", "guarded"])
    def test_the_query_at_fault_is_named_whatever_the_method_makes_of_it(
        self, name, wrap, guard, session, fault, batches
    ):
        method = wrap(METHODS[name]())
        learnt = Session(session.encoder, session.gallery, method, lr=0.01, guard=guard)
        learnt.answer(batches[0])
        fault(lambda vectors: vectors.index_fill(0, torch.tensor([2]), math.nan))
        refuses(learnt, items(4), BadInput, "the vector of query 2 holds NaN or infinite")

    def test_vectors_of_another_dimension_than_the_gallerys(self, session, fault):
        fault(lambda vectors: vectors[:, :5])
        refuses(session, items(4), GalleryMismatch, r"shape \(4, 5\), the gallery has 8")

    def test_several_vectors_per_query(self, session, fault):
        fault(lambda vectors: vectors[:, None])
        refuses(session, items(4), GalleryMismatch, r"shape \(4, 1, 8\)")

    def test_vectors_that_are_not_of_unit_length(self, session, fault):
        fault(lambda vectors: 3 * vectors)
        refuses(session, items(4), BadInput, "have length 3 to 3, expected unit length: normalise")

    @pytest.mark.parametrize("name", METHODS)
    def test_vectors_that_are_not_of_unit_length_with_every_method(self, clean, fault, name):
        toy = Faulty()
        session = Session(toy, Gallery.build(toy, clean), METHODS[name](), lr=0.01)
        session.answer(items(16))
        fault(lambda vectors: 3 * vectors)
        refuses(session, items(16), BadInput, "expected unit length: normalise")

    def test_while_answering_without_adapting(self, session, fault):
        fault(lambda vectors: vectors[:, :5])
        before = session.state
        with pytest.raises(GalleryMismatch):
            session.answer(items(4), adapt=False)
        assert same(session.state, before)

    def test_while_gathering(self, session, fault, batches):
        gathering = Session(session.encoder, session.gallery, REST(), lr=0.01, gather=3)
        gathering.answer(batches[0][:2])
        refuses(gathering, spoilt(math.nan), BadInput, "item 1 holds NaN")
        assert len(gathering._updater.gathered) == 2

    def test_a_group_that_fails_while_gathering(self, session, clean, batches):
        class Failing(Tent):
            def loss(self, seen, memory):
                if calls.append(1) or len(calls) > 1:
                    raise BadInput("the second group fails")
                return super().loss(seen, memory)

        calls: list[int] = []
        gathering = Session(session.encoder, session.gallery, Failing(), gather=4, steps=1)
        refuses(gathering, batches[0], BadInput, "the second group fails")

    def test_a_method_that_fails_in_the_middle(self, session, batches):
        class Failing(Tent):
            def loss(self, seen, memory):
                if calls.append(1) or len(calls) > 2:
                    raise Error("the third step fails")
                return super().loss(seen, memory)

        calls: list[int] = []
        failing = Session(session.encoder, session.gallery, Failing(), lr=0.01)
        refuses(failing, batches[0], Error, "the third step fails")


class TestGalleries:
    def test_no_candidates(self, encoder):
        with pytest.raises(BadInput, match="no candidates, expected at least one"):
            Gallery.build(encoder, [])
        for none in ([], torch.empty(0, 4), torch.empty(3, 0)):
            with pytest.raises(BadInput, match="expected floating-point"):
                Gallery.from_vectors(range(len(none)), none)

    def test_zero_vectors(self):
        with pytest.raises(BadInput, match="candidate 1 has a zero vector"):
            Gallery.from_vectors("abc", torch.tensor([[1.0, 0], [0, 0], [0, 1]]))

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_vectors_that_are_not_finite(self, value):
        with pytest.raises(BadInput, match="candidate 2 holds NaN or infinite"):
            Gallery.from_vectors("abc", torch.tensor([[1.0, 0], [0, 1], [value, 1]]))

    def test_items_that_are_not_finite(self, encoder):
        with pytest.raises(BadInput, match="item 1 holds NaN"):
            Gallery.build(encoder, spoilt(math.nan))

    def test_ids_that_repeat_or_lack(self, encoder, count):
        for make in (
            lambda ids: Gallery.build(encoder, items(3), ids),
            lambda ids: Gallery.from_vectors(ids, torch.eye(3)),
        ):
            with pytest.raises(BadInput, match="the id 'a' stands more than once"):
                make(["a", "b", "a"])
            with pytest.raises(BadInput, match="got 2 ids for 3 candidates"):
                make(["a", "b"])
        assert count.forwards == 0  # noticed before anything is encoded

    def test_numbers_that_are_not_floating_point(self):
        with pytest.raises(BadInput, match=r"type torch\.int64, expected floating-point"):
            Gallery.from_vectors("ab", torch.eye(2, dtype=torch.long))

    def test_an_encoder_whose_vectors_are_not_of_unit_length(self, fault):
        fault(lambda vectors: 2 * vectors)
        with pytest.raises(BadInput, match="vectors of length 2 to 2, expected unit length"):
            Gallery.build(Faulty(), items(3))


def _needs_norms(method, gallery) -> bool:
    try:
        method.adapts(NoNorms(), gallery)
    except CannotAdapt:
        return True
    return False


class TestMethods:
    @pytest.mark.parametrize("name", WHOLE_GALLERY)
    def test_over_the_whole_gallery_say_when_it_cannot_be_had(
        self, name, encoder, gallery, batches
    ):
        session = Session(encoder, Remote(gallery), METHODS[name]())
        refuses(session, batches[0], NeedsVectors, "cannot give its vectors")

    @pytest.mark.parametrize("name", HITS_ONLY)
    def test_over_the_hits_do_not_mind(self, name, encoder, gallery, batches):
        session = Session(encoder, Remote(gallery), METHODS[name]())
        assert len(session.answer(batches[0]).top(3)) == 12

    def test_together_they_are_all(self):
        assert {*WHOLE_GALLERY, *HITS_ONLY} == set(METHODS)

    def test_an_encoder_without_norm_layers(self):
        gallery = Gallery.build(NoNorms(), items(5))
        with pytest.raises(CannotAdapt, match="use the method Frozen, or TSA or TCRUntrained"):
            Session(NoNorms(), gallery, Tent())
        without = {name for name in METHODS if not _needs_norms(METHODS[name](), gallery)}
        assert without == {"frozen", "tsa", "tcr_untrained"}
        for name in without:
            session = Session(NoNorms(), gallery, METHODS[name](), lr=0.1)
            assert len(session.answer(items(2)).top(3)) == 2

    @pytest.mark.parametrize("method", ["rest", REST])
    def test_what_is_no_method(self, method, encoder, gallery):
        with pytest.raises(BadInput, match=r"as method, expected one with its settings: REST\(\)"):
            Session(encoder, gallery, method)

    def test_a_setting_that_only_the_wrapped_method_decides(self, encoder, gallery):
        with pytest.raises(BadInput, match=r"give it to that one, Tent\(weight_decay=0\.1\)"):
            Session(encoder, gallery, Decoupled(Tent(), weight_decay=0.1))
        same_for_both = Decoupled(Tent(weight_decay=0.1), weight_decay=0.1)
        assert Session(encoder, gallery, same_for_both).method.weight_decay == 0.1

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (
                lambda: REST(duplicates="merged"),
                "rest: duplicates is 'merged', expected keep or merge",
            ),
            (
                lambda: REST(consistency="clip"),
                "rest: consistency is 'clip', expected affine or clamp",
            ),
            (lambda: REST(decouple="false"), "decouple is 'false', expected true or false"),
            (lambda: REST(gap=0), "rest: gap is 0, expected true or false"),
            (lambda: REST(lr="1e-3"), "rest: lr is '1e-3', expected a number or none"),
            (lambda: REST(lr=math.nan), "rest: lr is nan, expected a number"),
            (lambda: REST(neighbours=2.5), r"rest: neighbours is 2\.5, expected a whole number"),
            (lambda: REST(neighbours=0), "rest: neighbours is 0, expected at least 1"),
            (lambda: REST(queue_size=0), "rest: queue_size is 0, expected none, or at least 1"),
            (
                lambda: REST(queue_batches=0),
                "rest: queue_batches is 0, expected none, or at least 1",
            ),
            (lambda: Tent(optimiser="adam"), "tent: optimiser is 'adam', expected adamw or sgd"),
            (lambda: Tent(weight_decay=None), "tent: weight_decay is None, expected a number"),
            (lambda: SAR(filter="Log"), "sar: filter is 'Log', expected quantile or log"),
            (lambda: SAR(share=3), "sar: share is 3, expected more than 0, and at most 1"),
            (lambda: EATA(share=0.0), r"eata: share is 0\.0, expected more than 0, and at most 1"),
            (
                lambda: Decoupled(Tent(), weight_on="LR"),
                "weight_on is 'LR', expected gradient or lr",
            ),
            (
                lambda: Decoupled(Tent(), neighbours=0),
                r"tent\+decoupled: neighbours is 0, expected at",
            ),
            (
                lambda: Decoupled(Tent(), drift_temperature=0),
                "drift_temperature is 0, expected more than",
            ),
            (lambda: Refined(REST(over="none")), "rest: over is 'none', expected all or tensor"),
            (
                lambda: Refined(Tent(), neighbours=0),
                r"tent\+refined: neighbours is 0, expected at least 1",
            ),
        ],
    )
    def test_settings_that_would_act_like_others_in_silence_are_refused_at_once(self, make, text):
        with pytest.raises(BadInput, match=text):
            make()

    def test_settings_of_ones_own_are_checked_where_their_types_can_be_known(
        self, encoder, gallery
    ):
        @dataclass(frozen=True, kw_only=True)
        class Mine(Tent):
            kind: Literal["a", "b"] = "a"

        @dataclass(frozen=True, kw_only=True)
        class Unknowable(Tent):
            kind: "OnlyTheCheckerKnows" = "c"  # noqa: F821

        with pytest.raises(BadInput, match="mine: kind is 'c', expected a or b"):
            Mine(kind="c")
        Session(encoder, gallery, Unknowable())

    @pytest.mark.parametrize("wrapper", [Decoupled, Refined])
    @pytest.mark.parametrize("inside", ["tent", Tent, None])
    def test_what_cannot_be_wrapped(self, wrapper, inside):
        with pytest.raises(BadInput, match=rf"expected a method.*{wrapper.__name__}\(Tent\(\)\)"):
            wrapper(inside)

    def test_temperature_of_zero(self, encoder, gallery):
        with pytest.raises(BadInput, match=r"tent: temperature is 0\.0, expected more than 0"):
            Session(encoder, gallery, Tent(temperature=0.0))

    def test_a_batch_where_nothing_is_reliable(self, encoder, gallery, batches):
        """Only the other terms act: the same as with the consistency terms switched off."""
        session = Session(encoder, gallery, REST(), lr=0.01, steps=1)
        session.answer(batches[0])
        trusting_nobody = replace(
            session.state.memory,
            entropies=torch.full_like(session.state.memory.entropies, 1e-9 - LIMIT_MARGIN),
            batches=10,
        )
        start, learnt = replace(session.state, memory=trusting_nobody), []
        for switches in ({}, {"entropy": False, "mining": False}):
            session = Session(encoder, gallery, REST(**switches), lr=0.01, steps=1)
            session.restore(start)
            session.answer(batches[1])
            learnt.append(session.state.adapted.values)
        assert not torch.equal(learnt[0], start.adapted.values)
        assert torch.equal(learnt[0], learnt[1])

    def test_importances_of_nothing_or_of_another_encoder(self, encoder, gallery, clean, batches):
        with pytest.raises(BadInput, match="got no clean queries"):
            fisher_of(encoder, gallery, [])
        with torch.inference_mode():
            found = fisher_of(encoder, gallery, iter(clean))
        found.pop("last.0.weight")
        session = Session(encoder, gallery, EATA(fisher=found, redundancy=0.9))
        refuses(session, batches[0], BadInput, r"no importance of last\.0\.weight.*fisher_of")

    def test_a_batch_where_no_pseudo_label_is_sure(self, encoder, gallery, batches):
        session = Session(encoder, gallery, METHODS["pl"](confidence=1.0), lr=0.01)
        session.answer(batches[0])
        assert session.state.adapted.updates == 0


class TestParts:
    """Of a session: what is handed over in the place of another thing."""

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            ({"encoder": {"image": 1, "text": 2}}, r'model\["image"\] or model\["text"\]'),
            ({"encoder": torch.nn.Linear(2, 2)}, "got a Linear as encoder.*queryshift.load"),
            ({"gallery": "vectors.npy"}, "got a str as gallery.*from_vectors"),
            ({"gallery": ["a", "b"]}, "got a list as gallery"),
            (
                {"matcher": torch.nn.Linear(2, 2)},
                r"got a Linear as matcher.*matcher\.over\(items\)",
            ),
        ],
    )
    def test_is_refused_with_what_is_meant(self, parts, text, encoder, gallery, tmp_path):
        Session(encoder, gallery, REST()).save(tmp_path / "state")
        parts = {"encoder": encoder, "gallery": gallery, **parts}
        with pytest.raises(BadInput, match=text):
            Session(**parts, method=REST())
        with pytest.raises(BadInput, match=text):
            Session.load(tmp_path / "state", **parts)


def test_an_item_that_an_encoder_cannot_take_leaves_the_session_alone(session):
    before = session.state
    with pytest.raises(RuntimeError, match="shape") as raised:
        session.answer([torch.ones(ITEM + 1)])
    assert raised.value.__context__ is None  # told once
    assert same(session.state, before)
