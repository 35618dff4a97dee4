"""InfoMax: its prediction term in plain numpy, its falling rate, and what it remembers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from queryshift import REST, Gallery, InfoMax, Session
from queryshift.errors import BadInput
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.step_view import StepView
from toy import ToyEncoder, toy_gallery, toy_queries

K, TAU = 3, 0.2


@pytest.fixture
def forward():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(38, 6, generator=generator), dim=1)
    gallery = Gallery.from_vectors(range(30), vectors[:30].tolist())
    return Forward(vectors[30:].requires_grad_(), gallery)


def plain(forward, wanted) -> float:
    """Mean entropy, and the divergence of the mean prediction from what is asked for."""
    scores = (forward.vectors @ forward.gallery.vectors[:, 0].T).detach().double().numpy()
    columns = sorted({c for row in scores for c in np.argsort(-row)[:K]})
    weights = np.exp(scores[:, columns] / TAU)
    shares = weights / weights.sum(axis=1, keepdims=True)
    mean, asked = shares.mean(axis=0), np.array([wanted.get(c, 1.0) for c in columns])
    sure = -(shares * np.log(shares)).sum(axis=1).mean()
    return sure + (mean * (np.log(mean + 1e-5) - np.log(asked / asked.mean()))).sum()


def rests_share(forward, memory):
    return REST(temperature=TAU, neighbours=K).loss(forward, memory)


def test_adds_sure_predictions_that_are_together_as_asked(forward):
    method = InfoMax(temperature=TAU, neighbours=K)
    memory = method.observe(forward, method.start(forward.gallery, torch.device("cpu")), 0)
    found = float((method.loss(forward, memory) - rests_share(forward, memory)).detach())
    assert found == pytest.approx(plain(forward, {}), abs=1e-4)
    popular = int(forward.hits(1).positions[0, 0])
    claims = torch.cat((torch.tensor([popular] * 6 + [1, 2, 3, 4]), torch.arange(8)))
    asked = replace(memory, claims=claims, learnt=2)
    share = 4 / 10
    wanted = {c: 1 - share for c in range(30)} | {popular: 1 - share + 30 * share}
    found = float((method.loss(forward, asked) - rests_share(forward, asked)).detach())
    assert found == pytest.approx(plain(forward, wanted), abs=1e-4)


def test_the_rate_falls_with_the_root_of_the_batches():
    encoder = ToyEncoder()
    gallery = toy_gallery(encoder, 40)
    rates = []

    class Watched(InfoMax):
        def gradient(self, step_view: StepView, memory):
            update = super().gradient(step_view, memory)
            rates.append(update.rate)
            return update

    session = Session(encoder, gallery, Watched(early=3.0, late=0.5), steps=1, guard=None)
    for batch in toy_queries(4, 16, 40):
        session.answer(batch)
    assert rates == pytest.approx([3, 3 / 2**0.5, 3 / 3**0.5, 3 / 2])


def test_its_temperature_is_a_part_of_the_batch_s_spread():
    encoder = ToyEncoder()
    session = Session(encoder, toy_gallery(encoder, 40))
    assert session.method.temperature is None
    assert Session(encoder, session.gallery, InfoMax(temperature=0.1)).method.temperature == 0.1


def test_first_places_are_bounded_and_forgotten_with_their_gallery():
    encoder = ToyEncoder()
    gallery = toy_gallery(encoder, 40)
    session = Session(encoder, gallery, InfoMax(remembered=20), guard=None)
    for batch in toy_queries(4, 16, 40):
        session.answer(batch)
    assert len(session.state.memory.claims) == 36  # this batch's, and twenty before
    session.gallery = gallery.remove(gallery.ids[:3])
    assert session.state.memory.claims is None


@pytest.mark.parametrize("given", [{"part": 0.0}, {"neighbours": 0}, {"late": -1.0}, {"early": 0}])
def test_what_cannot_be_is_refused(given):
    with pytest.raises(BadInput, match=next(iter(given))):
        InfoMax(**given)
