"""What all methods have in common: how few queries they learn from, and what a step costs."""

import pytest
import torch

from queryshift import Session
from queryshift.methods import REST, TCR, Decoupled, InfoMax, Method, Tent
from queryshift.methods.base import StepView
from queryshift.retrieval.forward import Batch
from toy import ToyEncoder, toy_gallery, toy_queries


@pytest.mark.parametrize(
    ("method", "fewest"),
    [(Tent(), 1), (Decoupled(Tent()), 1), (InfoMax(), 2), (TCR(), 2), (REST(), 2)],
    ids=lambda one: one.name if isinstance(one, Method) else None,
)
def test_a_method_learns_from_batches_of_this_size_on(method, fewest):
    encoder = ToyEncoder()
    session = Session(encoder, toy_gallery(encoder, 40), method, lr=1e-3, guard=None)
    queries = toy_queries(1, 4, 40)[0]
    for size in (1, 2):
        session.reset()
        session.answer(queries[:size])
        assert (session.state.adapted.updates > 0) is (size >= fewest)


def test_before_anything_is_learnt_one_pass_is_both_the_sources_and_the_current(monkeypatch):
    encoder = ToyEncoder()
    gallery, source = toy_gallery(encoder, 40), encoder.norm_params()
    passes, run = [], encoder.run_with_params
    monkeypatch.setattr(encoder, "run_with_params", lambda *given: passes.append(1) or run(*given))
    for params, expected in ((source, 1), (dict(source), 2)):
        batch = Batch(encoder, gallery, encoder.ready(toy_queries(1, 4, 40)[0]))
        view = StepView(batch, params, source, seed=0)
        assert view.at_source is (expected == 1)
        passes.clear()
        torch.testing.assert_close(view.now.scores.detach(), view.source.scores)
        assert len(passes) == expected and not view.source.scores.requires_grad
