"""A guard returns a session to its source, in the history and with a warning."""

import math
from dataclasses import replace

import pytest
import torch

from miniature import DIMENSION, Toy, same, stream
from queryshift import METHODS, REST, SAR, Gallery, Guard, GuardWarning, Session, Tent
from queryshift.errors import BadInput
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.uncertainty import LATEST
from queryshift.sessions import policy
from queryshift.sessions.policy import objection

NEVER = Guard(collapse=1.0, spread=0.0)
STRICT = Guard(collapse=1e-9)  # no candidate may gain a first place


@pytest.fixture
def plain(encoder, gallery):
    return Session(encoder, gallery, Tent(), lr=0.01, guard=None)


def is_at_the_source(session) -> bool:
    source = session.adaptation.source
    return all(torch.equal(value, source[name]) for name, value in session.params.items())


class TestProvoked:
    def test_by_collapse(self, encoder, gallery, batches):
        guard = Guard(collapse=0.25)
        session = Session(encoder, gallery, Tent(temperature=0.5), lr=0.5, guard=guard, steps=5)
        with pytest.warns(GuardWarning, match="collapse: one candidate took .* [(]limit 25%"):
            for batch in batches:
                answer = session.answer(batch)
                if session.stats().restart:
                    break
        assert session.stats().restart.startswith("collapse")
        assert session.stats().resets == session.state.resets == 1
        assert is_at_the_source(session)
        assert session.state.adapted.updates == 0
        assert torch.equal(answer.vectors, encoder.encode(batch))  # answered by the source

    def test_and_what_the_method_remembers_goes_too(self, encoder, gallery, batches):
        session = Session(encoder, gallery, REST(), lr=0.05, guard=STRICT)
        with pytest.warns(GuardWarning, match="collapse: one candidate took") as warned:
            session.answer(batches[0])
        assert warned[0].filename == __file__  # points at the caller
        assert is_at_the_source(session)
        assert len(session.state.memory) == 0
        assert session.stats().restart.startswith("collapse")

    @pytest.mark.parametrize("score_from", ["last_forward", "before", "after"])
    @pytest.mark.parametrize("name", ["tent", "rest", "sar", "tsa", "eata"])
    def test_by_what_is_not_finite(self, name, score_from, encoder, gallery, batches):
        method = SAR(reset_below=None) if name == "sar" else METHODS[name]()
        session = Session(encoder, gallery, method, lr=math.inf, guard=NEVER, score_from=score_from)
        with pytest.warns(GuardWarning, match="not finite"):
            answer = session.answer(batches[0])
        assert is_at_the_source(session)
        assert session.state.resets == 1
        assert torch.isfinite(answer.top(5).scores).all()

    def test_and_goes_on_learning(self, encoder, gallery, batches):
        session = Session(encoder, gallery, REST(), lr=0.05, guard=STRICT)
        for number in (1, 2):
            with pytest.warns(GuardWarning, match="collapse"):
                session.answer(batches[number])
            assert session.state.resets == number
        assert [one.batch for one in session.history] == [1, 2]

    def test_from_a_space_of_the_method_s_own(self, encoder, gallery, batches, monkeypatch):
        session = Session(encoder, gallery, METHODS["tsa"](), lr=0.01, guard=NEVER)
        session.answer(batches[0])  # TSA ranks with vectors twice as long as the source's
        monkeypatch.setattr(policy, "objection", lambda *_: "collapse: too much")
        with pytest.warns(GuardWarning, match="collapse: too much"):
            answer = session.answer(batches[1])
        assert torch.equal(answer.vectors, encoder.encode(batches[1]))

    @pytest.mark.parametrize("name", METHODS)
    def test_or_never_with_any_method(self, name, encoder, gallery, batches, monkeypatch):
        """In full doubt, under a guard that minds nothing, what is learnt is the bare method's."""
        monkeypatch.setattr(policy, "shared", lambda *_: torch.tensor(1.0))
        guarded = Session(encoder, gallery, METHODS[name](), lr=0.001, guard=NEVER)
        guarded.restore(replace(guarded.state, chances=torch.ones(LATEST)))
        free = Session(encoder, gallery, METHODS[name](), lr=0.001, guard=None)
        for batch in batches[:3]:
            assert same(guarded.answer(batch).vectors, free.answer(batch).vectors)
        kept = {"chances": free.state.chances, "found": free.state.found}
        assert same(replace(guarded.state, **kept), free.state)


def test_without_a_guard_an_update_that_is_not_finite_is_dropped(encoder, gallery, batches):
    class Spoilt(Tent):
        def loss(self, seen, memory):
            return super().loss(seen, memory) * (math.nan if spoil else 1)

    spoil = False
    session = Session(encoder, gallery, Spoilt(), lr=0.01, guard=None)
    session.answer(batches[0])
    before, spoil = session.state, True
    with pytest.warns(GuardWarning, match="not finite: the update was dropped"):
        answer = session.answer(batches[1])
    assert same(session.state.adapted, before.adapted)
    assert session.state.resets == 0
    assert torch.isfinite(answer.vectors).all()


class TestParametersThatGiveNoFiniteVectors:
    def lost(self, encoder, gallery, batches, **settings):
        settings = {"guard": None, **settings}
        session = Session(encoder, gallery, Tent(), lr=1e30, steps=1, **settings)
        session.answer(batches[0])
        session.wait()
        assert torch.isfinite(session.state.adapted.values).all()
        return session

    @pytest.mark.parametrize("adapt", [True, False])
    def test_are_given_up_by_a_guard(self, adapt, encoder, gallery, batches):
        session = self.lost(encoder, gallery, batches, guard=NEVER)
        with pytest.warns(GuardWarning, match="not finite: the adapted model") as warned:
            answer = session.answer(batches[1], adapt=adapt)
        assert warned[0].filename == __file__  # points at the caller
        assert torch.equal(answer.vectors, encoder.encode(batches[1]))
        assert session.stats().restart.startswith("not finite")
        assert session.stats().resets == 1

    @pytest.mark.parametrize("worker", [True, False])
    def test_are_given_up_where_queries_gather(self, worker, encoder, gallery, batches):
        session = self.lost(encoder, gallery, batches, guard=NEVER, gather=12, worker=worker)
        with pytest.warns(GuardWarning, match="not finite: the adapted model"):
            answer = session.answer(batches[1][:5])
        assert torch.equal(answer.vectors, encoder.encode(batches[1][:5]))
        assert session.stats().restart.startswith("not finite")
        assert (session.stats().resets, len(session._updater.gathered)) == (1, 5)

    @pytest.mark.parametrize("gather", [None, 12])
    def test_are_named_without_one(self, gather, encoder, gallery, batches):
        session = self.lost(encoder, gallery, batches, gather=gather)
        before = session.state
        with pytest.raises(BadInput, match=r"the adapted model gives .*: call reset\(\)"):
            session.answer(batches[1])
        assert same(session.state, before)
        session.reset()
        session.answer(batches[1])

    def test_are_not_blamed_for_bad_queries(self, encoder, gallery, batches):
        session = self.lost(encoder, gallery, batches, guard=NEVER)
        with pytest.raises(BadInput, match="empty batch"):
            session.answer([])


def test_on_by_default(encoder, gallery):
    assert Session(encoder, gallery, Tent()).settings.guard == Guard()


class TestObjection:
    """The guard's judgement alone, on retrievals made by hand."""

    def retrieval(self, *firsts: int) -> Forward:
        gallery = Gallery.from_vectors(range(DIMENSION), torch.eye(DIMENSION))
        return Forward(torch.eye(DIMENSION)[list(firsts)], gallery)

    def test_counts_first_places_gained_over_the_source(self):
        guard = Guard(collapse=0.25)
        source = self.retrieval(0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7)
        assert objection(guard, source, source) is None
        some = self.retrieval(0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 7)
        assert objection(guard, some, source) is None
        assert "collapse: one candidate took 33%" in objection(
            guard, self.retrieval(0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 7), source
        )

    def test_few_queries_share_an_answer_by_chance(self):
        some = [*range(8), *range(8)]
        for size, expected in ((9, None), (10, "collapse: one candidate took")):
            found = objection(Guard(), self.retrieval(*[0] * size), self.retrieval(*some[:size]))
            assert found is expected or found.startswith(expected)

    def test_sees_what_is_not_finite(self):
        now = self.retrieval(*range(8))
        now.vectors[3, 1] = math.nan
        assert "not finite" in objection(NEVER, now, self.retrieval(*range(8)))


@pytest.mark.parametrize("limits", [{"collapse": 0}, {"collapse": 1.5}, {"spread": -0.1}])
def test_limits_that_cannot_work_are_refused(limits):
    with pytest.raises(BadInput, match="expected a share"):
        Guard(**limits)


def test_a_healthy_stream_is_left_alone(clean):
    toy = Toy()
    session = Session(toy, Gallery.build(toy, clean), REST(), guard=Guard())
    for batch in stream(clean, 12, size=16):
        session.answer(batch)  # a warning would be an error here
    assert session.state.resets == 0


@pytest.mark.parametrize(
    "wrong",
    [{"collapse": "0.2"}, {"spread": None}, {"spread": float("nan")}],
)
def test_limits_that_are_no_numbers_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(BadInput, match=f"guard: {name} is {value!r}, expected a"):
        Guard(**wrong)
