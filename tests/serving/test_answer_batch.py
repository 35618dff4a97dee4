"""Answers of a batch where its sessions cannot be asked together: each by itself."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import DIMENSION, ITEM, Toy, items, shifted
from queryshift import Encoder, Frozen, Gallery, Guard, Tent, answer_many
from queryshift.encoders.vectors import Vectors
from queryshift.retrieval.answer import FusedRanking
from queryshift.serving.answering import answers as rows
from queryshift.serving.answering.answers import Asked, answer_rows
from queryshift.serving.collection import Collection
from queryshift.serving.settings import CollectionSettings
from queryshift.sessions.policy import standing_weight


class Squared(nn.LayerNorm):
    """A norm layer of a kind of its own, whose rows cannot have weights of their own."""

    def forward(self, values):
        return super().forward(values) ** 2 - 0.5


class Odd(Encoder):
    """An encoder that `answer_many` refuses."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.norm = nn.Linear(ITEM, DIMENSION), Squared(DIMENSION)

    def prepare(self, items):
        return torch.stack(list(items))

    def forward(self, prepared):
        return normalize(self.norm(self.first(prepared)), dim=1)


def collection_of(encoder, guard=None):
    """A collection whose sessions answer by what they learnt, or with a guard mix both models."""
    gallery = Gallery.build(encoder, items(40))
    made = (CollectionSettings(), encoder, encoder, gallery, Tent(lr=0.01), None, guard, "after")
    return Collection("shop", *made)


def asked_in_shadow(session):
    return [Asked([item], [[]], 3, session, source=True) for item in shifted(items(40))[:4]]


@pytest.mark.parametrize("guard", [None, Guard()])
@pytest.mark.parametrize("kind", [Odd, Toy])
def test_both_answers_are_those_of_each_session_by_itself(kind, guard):
    collection = collection_of(kind(), guard)
    session, asked = collection.session(), asked_in_shadow(None)
    session.answer(shifted(items(40))[:16])
    assert standing_weight(session.adaptation, session.state) > 0
    answers = answer_rows(collection, [replace(one, session=session) for one in asked])
    for one, (answer,) in zip(asked, answers, strict=True):
        assert answer.error is None and answer.by == ("adapted" if guard is None else "both")
        for found, by in ((answer.source, collection.source), (answer.adapted, session)):
            ids = by.answer(one.items, adapt=False).top(3).ids[0]
            assert [hit["id"] for hit in found] == ids


def test_a_session_that_gives_nonsense_costs_no_answer_of_the_source():
    collection = collection_of(Toy())
    session = collection.session()
    session.answer(shifted(items(40))[:8])
    broken = replace(session.state.adapted, values=session.state.adapted.values * 1e38)
    session.restore(replace(session.state, adapted=broken))
    asked = asked_in_shadow(session)
    for one, (answer,) in zip(asked, answer_rows(collection, asked), strict=True):
        ids = collection.source.answer(one.items, adapt=False).top(3).ids[0]
        assert answer.error is None and [hit["id"] for hit in answer.source] == ids
        assert answer.adapted == answer.source and answer.by == "source"
        ((live,),) = answer_rows(collection, [replace(one, source=False)])
        assert live.error is None and live.source is None and live.by == "source"
        assert live.adapted == answer.source


def test_a_query_that_cannot_be_answered_costs_others_nothing():
    collection = collection_of(Toy())
    good, *_ = items(40)
    asked = Asked([good, good[:-1], good], [[]] * 3, 3, collection.session(), source=True)
    ((first, bad, last),) = answer_rows(collection, [asked])
    assert bad.error is not None and first.error is None and first.adapted == last.adapted


def ids(answers):
    return [[[hit["id"] for hit in answer.adapted] for answer in part] for part in answers]


@pytest.mark.parametrize(("apart", "looks"), [(1e-7, 2), (0.1, 1)])
def test_a_request_with_scores_too_near_to_tell_is_answered_by_itself(apart, looks, monkeypatch):
    asked_at_once = []

    def counting(sessions, batches, *more, **other):
        asked_at_once.append(len(sessions))
        return answer_many(sessions, batches, *more, **other)

    monkeypatch.setattr(rows, "answer_many", counting)
    collection, axes = collection_of(Toy()), torch.eye(DIMENSION)
    vectors = torch.stack([axes[0], axes[0] + apart * axes[1], *axes[2:6]])
    gallery = Gallery.from_vectors(list(range(6)), normalize(vectors, dim=1))
    plain = Vectors(DIMENSION)
    given = {"reader": plain, "encoder": plain, "gallery": gallery, "method": Frozen()}
    collection = replace(collection, **given)
    query = normalize(axes[0] + 0.9 * axes[1], dim=0)
    asked = [Asked([query], [[]], 1, collection.session(), source=False) for _ in range(2)]
    first, second = ids(answer_rows(collection, asked))
    assert first == second and asked_at_once == [2, 1, 1][: 2 * looks - 1]


@pytest.mark.parametrize(
    ("unit", "scores", "near"),
    [
        (None, [0.3, 0.299995, 0.1], True),
        (None, [0.3, 0.2999, 0.1], False),
        (0.01, [0.3, 0.2998, 0.1], True),  # a softmax turns rounding into more than that
        (0.1, [0.3, 0.2998, 0.1], False),
        (0.1, [0.9, 0.1, 3e-6, 2e-6, 1e-6], False),  # tiny, and far apart
        (0.1, [0.9, 0.1, 2.0001e-6, 2e-6], True),
        (0.1, [0.9, 0.1, 0.0, 0.0], True),
    ],
)
def test_scores_of_a_mixture_are_near_by_their_ratio(unit, scores, near):
    class Mixture(FusedRanking):
        temperature = torch.tensor([[unit or 1.0]])

        def __init__(self):
            pass

    answer = SimpleNamespace(ranking=None if unit is None else Mixture())
    assert rows._too_near(answer, torch.tensor([scores])).tolist() == [near]


@pytest.mark.parametrize(("place", "near"), [(0, True), (9, True), (10, False)])
def test_scores_are_looked_at_as_far_as_the_top_ten_depend_on_them(place, near):
    scores = torch.linspace(0.9, 0.2, 14)
    scores[place + 1] = scores[place]
    answer = SimpleNamespace(ranking=None)
    assert rows._too_near(answer, scores[None]).tolist() == [near]


def test_each_query_leaves_out_its_own_ids_and_those_of_nobody_cost_nothing():
    collection = collection_of(Toy())
    queries = items(40)[:3]
    best = [[hit["id"] for hit in one.source] for one in asked_alone(collection, queries)]
    exclude = [[best[0][0], "nobody"], [], [best[2][1]]]
    (found,) = answer_rows(collection, [Asked(queries, exclude, 2, None, source=True)])
    assert [[hit["id"] for hit in one.source] for one in found] == [
        best[0][1:3],
        best[1][:2],
        [best[2][0], best[2][2]],
    ]


def asked_alone(collection, queries):
    (found,) = answer_rows(collection, [Asked(queries, [[]] * len(queries), 3, None, source=True)])
    return found


@pytest.mark.parametrize("guard", [None, Guard()])
def test_the_top_ten_of_a_request_are_the_same_whoever_asks_with_it(guard):
    collection = collection_of(Toy(), guard)
    candidates = collection.gallery.vectors.clone()
    candidates[20:] = candidates[:20] + 1e-7 * torch.rand(20, 1, DIMENSION)  # as good as equal
    collection = replace(
        collection, gallery=Gallery.from_vectors(list(range(40)), candidates[:, 0])
    )
    queries = shifted(items(40))
    one, other = collection.session(), collection.session()
    for session in (one, other):
        session.answer(queries[:16])
        assert standing_weight(session.adaptation, session.state) > 0
    for start in range(8):
        mine = Asked(queries[start : start + 8], [[]] * 8, 10, one, source=False)
        alone = ids(answer_rows(collection, [mine]))[0]
        for count in (1, 7, 15):
            crowd = Asked(queries[:count], [[]] * count, 40, other, source=True)
            assert ids(answer_rows(collection, [crowd, mine]))[1] == alone
