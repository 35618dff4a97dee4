"""A batch's forwards: what takes part in them, and what is refused."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import ITEM, Toy
from queryshift import Encoder, Gallery, InfoMax, Session, Tent
from queryshift.errors import BadInput, CannotAdapt
from queryshift.retrieval.forward import Forward


class Watched(Toy):
    """Tells of each forward whether torch would keep a graph of it."""

    def __init__(self):
        super().__init__()
        self.graphs: list[bool] = []

    def finish_from(self, hidden):
        self.graphs.append(torch.is_grad_enabled())
        return super().finish_from(hidden)


@pytest.mark.parametrize("score_from", ["after", "last_forward"])
@pytest.mark.parametrize("method", [InfoMax(), Tent()], ids=lambda one: one.name)
def test_only_steps_keep_a_graph(method, score_from, clean, batches):
    """Neither the search for a rate, nor the source's forward, nor answers; one a step."""
    encoder = Watched()
    gallery = Gallery.build(encoder, clean)
    session = Session(encoder, gallery, method, score_from=score_from, guard=None)
    for batch in batches[:2]:
        encoder.graphs.clear()
        session.answer(batch).source.top(1)
        assert encoder.graphs.count(True) == 3
    encoder.graphs.clear()
    answer = session.answer(batches[2], adapt=False)
    assert not answer.source.vectors.requires_grad
    assert encoder.graphs == [False, False]


class MixesItems(Encoder):
    """Each vector depends on the items beside it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(ITEM, track_running_stats=False)

    def prepare(self, items):
        return torch.stack(list(items))

    def forward(self, prepared):
        return normalize(self.norm(prepared), dim=1)


def test_only_batches_that_need_no_pieces_are_answered_by_an_encoder_that_mixes_items(
    clean, batches
):
    encoder = MixesItems()
    gallery = Gallery.from_vectors(range(60), normalize(torch.stack(clean), dim=1))
    session = Session(encoder, gallery, Tent(), chunk=6)
    assert len(session.answer(batches[0][:6])) == 6
    with pytest.raises(CannotAdapt, match="leave chunk out"):
        session.answer(batches[0][:7])


def test_queries_without_readings_are_refused_by_a_matcher(encoder, gallery, batches):
    vectors = encoder.encode(batches[0])
    with pytest.raises(BadInput, match="no matcher to score pairs"):
        Forward(vectors, gallery, matching=object()).match(torch.zeros(12, 1, dtype=torch.long))
