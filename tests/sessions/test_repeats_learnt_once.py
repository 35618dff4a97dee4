"""Exact repeats in a batch count once, also where candidates are left out (docs/guard.md)."""

import pytest
import torch

from miniature import shifted
from queryshift import Session


@pytest.mark.parametrize("leave_out", [False, True])
def test_a_batch_with_repeats_teaches_what_it_teaches_without(leave_out, encoder, gallery, clean):
    queries = shifted(clean)[:16]
    best = Session(encoder, gallery).answer(queries, adapt=False).top(1).ids
    exclude = best if leave_out else None
    learnt = []
    for repeats in (0, 5):
        session = Session(encoder, gallery, lr=0.01)
        session.restore(session.state)
        asked = [*queries, *queries[:repeats]]
        left_out = None if exclude is None else [*exclude, *exclude[:repeats]]
        answer = session.answer(asked, exclude=left_out)
        assert session.state.adapted.updates == 3
        if leave_out:
            found = answer.top(5).ids
            assert not any(ids[0] in row for ids, row in zip(left_out, found, strict=True))
        learnt.append(session.state.adapted.values)
    assert torch.allclose(*learnt, atol=1e-6)
    first = Session(encoder, gallery, lr=0.01)
    first.answer(queries, exclude=exclude)
    assert not torch.equal(
        first.state.adapted.values, Session(encoder, gallery).state.adapted.values
    )
