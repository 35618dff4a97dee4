"""Ids to leave out that no candidate has: refused, or passed over where the caller says so."""

import pytest

import queryshift as qs
from queryshift.errors import BadInput, UnknownName
from toy import ToyEncoder, toy_gallery, toy_queries

DELETED = 10_000


@pytest.mark.parametrize("gather", [None, 4])
def test_deleted_candidates_can_be_ignored(gather):
    encoder = ToyEncoder()
    gallery, [queries] = toy_gallery(encoder), toy_queries(1, 4)
    known = qs.Session(encoder, gallery, qs.Tent(), gather=gather)
    first = known.fork().answer(queries, adapt=False).top(1).ids
    exclude = [[first[0][0]], None, [], []]
    stale = [[first[0][0], DELETED], None, DELETED, []]
    with pytest.raises(BadInput, match="10000"):
        known.fork().answer(queries, exclude=stale)
    ignoring = known.fork()
    answer = ignoring.answer(queries, exclude=stale, missing="ignore")
    assert answer.top(5).ids == known.answer(queries, exclude=exclude).top(5).ids
    assert ignoring.answer(queries).top(5).ids == known.answer(queries).top(5).ids
    assert first[0][0] not in answer.top(5).ids[0]


def test_another_word_is_refused():
    encoder = ToyEncoder()
    session = qs.Session(encoder, toy_gallery(encoder), qs.Frozen())
    with pytest.raises(UnknownName, match='no choice of missing "drop"'):
        session.answer(toy_queries(1, 2)[0], missing="drop")
