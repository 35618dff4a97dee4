"""Answers of a batch where its sessions cannot be asked together: each by itself."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import DIMENSION, ITEM, Toy, items, shifted
from queryshift import Encoder, Gallery, Tent
from queryshift.serving.answer_rows import Asked, answer_rows
from queryshift.serving.collection import Collection
from queryshift.serving.settings import CollectionSettings


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


def collection_of(encoder):
    gallery = Gallery.build(encoder, items(40))
    made = (CollectionSettings(), encoder, encoder, gallery, Tent(lr=0.01), None, None, False)
    return Collection("shop", *made)


def asked_in_shadow(session):
    return [Asked(item, [], 3, session, source=True) for item in shifted(items(40))[:4]]


@pytest.mark.parametrize("kind", [Odd, Toy])
def test_both_answers_are_those_of_each_session_by_itself(kind):
    collection = collection_of(kind())
    session, asked = collection.session(), asked_in_shadow(None)
    session.answer([one.item for one in asked])
    answers = answer_rows(collection, [replace(one, session=session) for one in asked])
    for one, answer in zip(asked, answers, strict=True):
        assert answer.error is None
        for found, by in ((answer.source, collection.source), (answer.adapted, session)):
            ids = by.answer([one.item], adapt=False).top(3).ids[0]
            assert [hit["id"] for hit in found] == ids


def test_a_session_that_gives_nonsense_costs_no_answer_of_the_source():
    collection = collection_of(Toy())
    session = collection.session()
    session.answer(shifted(items(40))[:8])
    broken = replace(session.state.adapted, values=session.state.adapted.values * 1e38)
    session.restore(replace(session.state, adapted=broken))
    asked = asked_in_shadow(session)
    for one, answer in zip(asked, answer_rows(collection, asked), strict=True):
        ids = collection.source.answer([one.item], adapt=False).top(3).ids[0]
        assert answer.error is None and [hit["id"] for hit in answer.source] == ids
        assert answer.adapted == answer.source
    (alone,) = answer_rows(collection, [replace(asked[0], source=False)])
    assert alone.adapted is None and "NaN or infinity" in str(alone.error)
