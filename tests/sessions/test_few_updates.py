"""Who answers depends on what was learnt, not on how many updates it took."""

from dataclasses import replace

import pytest
import torch

from miniature import Toy, items, shifted
from queryshift import Gallery, Guard, Hubs, InfoMax, Session


@pytest.mark.parametrize("size", [1, 4])
def test_after_one_update_queries_are_answered_as_after_many(size):
    encoder, clean = Toy(), items(60)
    gallery = Gallery.build(encoder, clean)
    settings = {"guard": Guard(), "hubs": Hubs(), "steps": 1, "lr": 0.01}
    session, queries = Session(encoder, gallery, InfoMax(), **settings), shifted(clean)
    session.answer(queries[:16])
    state = session.state
    assert state.adapted.updates == 1
    session.restore(replace(state, chances=torch.ones(64)))  # the source is in full doubt
    learns = size == 1  # one query alone is too few to learn from, and is only remembered
    few = session.answer(queries[16 : 16 + size], adapt=learns)
    assert session.state.adapted.updates == 1
    adapted = replace(state.adapted, updates=9)
    session.restore(replace(state, chances=torch.ones(64), adapted=adapted))
    many = session.answer(queries[16 : 16 + size], adapt=learns)
    assert torch.equal(few.scores(), many.scores())
    assert not torch.allclose(few.scores(), few.source.scores())
