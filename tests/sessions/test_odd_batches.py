"""Odd batches over odd galleries, with every method: a right answer or one clear error."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from miniature import ITEM, SeveralVectors, Toy, items, memory_of, same
from queryshift import METHODS, REST, Decoupled, Error, Gallery, Refined, Session, Tent, answer_many
from queryshift.errors import BadInput
from queryshift.methods import Method

MOST = 14
POOL = [*items(10), *items(1), *items(1), torch.zeros(ITEM), 1e4 * items(2)[1]]  # some are alike
ENCODER, SEVERAL = Toy(), SeveralVectors()
OWN_CANDIDATES = (
    "frozen",
    "tcr",
    "rest",
    "infomax",
    "tcr_untrained",
)  # refining changes nothing for them
SESSIONS: dict[str, Method] = {
    **{name: made() for name, made in METHODS.items()},
    **{f"{name}, decoupled": Decoupled(made()) for name, made in METHODS.items()},
    **{
        f"{name}, refined": Refined(made())
        for name, made in METHODS.items()
        if name not in OWN_CANDIDATES
    },
    "rest, merged": REST(duplicates="merge", own_copies=False, decouple=True),
}

candidates = st.integers(1, MOST)
rows = st.lists(st.integers(0, MOST - 1), min_size=1, max_size=7)
left_out = st.one_of(st.none(), st.sets(st.integers(0, MOST - 1), max_size=MOST - 1))
choices = st.fixed_dictionaries(
    {
        "lr": st.sampled_from([0.0, 1e-3, 0.1, 10.0]),
        "steps": st.integers(1, 3),
        "mode": st.sampled_from(["live", "shadow"]),
        "gather": st.sampled_from([None, 2]),
        "chunk": st.sampled_from([None, 2]),
        "watch_angle": st.booleans(),
        "score_from": st.sampled_from(["last_forward", "before", "after"]),
    }
)


def answers_are_right(session: Session, batch: list[int], exclude: Sequence[set[int]]) -> None:
    hits = session.answer([POOL[row] for row in batch], exclude=[list(one) for one in exclude])
    found = hits.top(MOST + 1)
    most = len(session.gallery) - max(map(len, exclude))
    assert len(found) == len(batch)
    for ids, hidden in zip(found.ids, exclude, strict=True):
        assert len(set(ids)) == len(ids) == most  # as many as every query of the batch has left
        assert not hidden.intersection(ids)
    assert torch.isfinite(found.scores).all()
    assert (found.scores.diff(dim=1) <= 0).all()
    assert torch.isfinite(session.state.adapted.values).all()
    measured = [value for one in session.history for value in asdict(one).values()]
    assert all(math.isfinite(value) for value in measured if isinstance(value, float))


@pytest.mark.filterwarnings("ignore::queryshift.GuardWarning")
@pytest.mark.parametrize("name", SESSIONS)
@settings(max_examples=4, deadline=None)
@given(data=st.data(), count=candidates, several=st.booleans(), chosen=choices)
def test_every_method_answers(name, data, count, several, chosen):
    gallery = Gallery.build(SEVERAL if several else ENCODER, POOL[:count])
    session = Session(ENCODER, gallery, SESSIONS[name], **chosen)
    for batch in data.draw(st.lists(rows, min_size=1, max_size=3)):
        drawn = data.draw(st.lists(left_out, min_size=len(batch), max_size=len(batch)))
        exclude = [{one for one in hidden or () if one < count} for hidden in drawn]
        answers_are_right(session, batch, [h if len(h) < count else set() for h in exclude])


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_query_that_may_find_nothing_is_refused(name, count):
    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:count]), SESSIONS[name], lr=0.01)
    session.answer(POOL[:4])
    before = memory_of(session)
    before = (*before[:2], list(before[2]), list(before[3]))
    with pytest.raises(Error, match=f"all {count} candidates are excluded for query 1: leave"):
        session.answer(POOL[:2], exclude=[None, list(range(count))])
    assert same(memory_of(session), before)


@pytest.mark.parametrize(
    "hidden",
    [1, np.int64(1), [1], (1,), {1}, np.array([1]), torch.tensor([1]), torch.tensor(1), iter([1])],
    ids=lambda hidden: type(hidden).__name__,
)
def test_what_is_left_out_may_be_named_in_many_ways(hidden):
    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:5]), REST())
    assert session.answer(POOL[1:2], exclude=[hidden]).top(1).ids != [[1]]


def test_what_is_left_out_stays_so_until_enough_have_gathered():
    seen = []

    class Looking(Tent):
        def loss(self, seen_now, memory):
            seen.append(seen_now.exclude)
            return super().loss(seen_now, memory)

    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:5]), Looking(), gather=2, steps=1)
    session.answer(POOL[1:2], exclude=[iter([1])])
    session.answer(POOL[2:3], exclude=iter([iter([2, 3])]))
    assert seen[0].tolist() == [[0, 1], [1, 2], [1, 3]]


def test_two_numbers_of_an_array_are_both_left_out():
    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:3]), REST())
    assert session.answer(POOL[1:2], exclude=[np.array([1, 2])]).top(3).ids == [[0]]


@pytest.mark.parametrize("gather", [None, 2])
@pytest.mark.parametrize(
    "made", [list, tuple, iter, np.array, torch.tensor], ids=lambda made: made.__name__
)
def test_what_is_left_out_of_a_batch_may_come_in_many_ways(made, gather):
    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:5]), REST(), gather=gather)
    found = session.answer(POOL[:3], exclude=made([0, 1, 2])).top(1).ids
    assert all(one != [row] for row, one in enumerate(found))


@pytest.mark.parametrize("one", ["ab", 5])
def test_one_candidate_is_not_a_list_of_what_to_leave_out(one):
    session = Session(ENCODER, Gallery.build(ENCODER, POOL[:3]), REST())
    with pytest.raises(BadInput, match=rf"got {one!r} as exclude, expected a list.*\[{one!r}\]"):
        session.answer(POOL[:2], exclude=one)


@pytest.mark.parametrize(
    "one", ["a red square", b"red", {"text": "red"}, Path("a.png"), None, Image.new("L", (3, 3))]
)
def test_one_item_is_no_batch(one):
    """A text would be taken apart into its letters."""
    gallery = Gallery.build(ENCODER, POOL[:3])
    session = Session(ENCODER, gallery, REST())
    for ask in (
        ENCODER.encode,
        session.answer,
        lambda one: Gallery.build(ENCODER, one, ids=["a"]),
        lambda one: gallery.add(ENCODER, one, ids=["a"]),
        lambda one: answer_many([session, session], [POOL[:1], one]),
    ):
        with pytest.raises(BadInput, match=rf"got one {type(one).__name__} as a batch.*\[item\]"):
            ask(one)
