"""TCR, twelve batches of 64, against its published code's behaviour written as a plain loop."""

import pytest
import torch
from plain_loops import (
    SIZE,
    Plain,
    Queue,
    assert_same_params,
    assert_same_stream,
    descend,
    entropies,
    play,
)
from torch import Tensor

from queryshift.methods import TCR, Decoupled, TCRUntrained
from queryshift.sessions.session import Session
from toy import ToyEncoder, toy_gallery, toy_items, toy_queries

LR, TAU = 3e-3, 0.02


class Published:
    """TCR's loss, with its queue."""

    def __init__(self) -> None:
        self.queue = Queue()

    def __call__(self, plain: Plain, queries: Tensor, number: int, step: int) -> Tensor:
        positives = plain.gallery[plain.scores(queries).argmax(dim=1)]
        unsure = entropies(queries @ positives.T / plain.tau)
        if step == 0 and number < 10:
            self.queue.update(queries, positives, unsure)
        kept = unsure <= self.queue.limit
        weights = (1 - unsure.detach() / (self.queue.limit + 1e-3)).clamp(min=0)
        robust = (weights * unsure)[kept].mean() if kept.any() else 0.0
        centre = queries.mean(0)
        uniform = torch.exp(-0.1 * (queries - centre).norm(dim=1)).mean()
        gap = ((centre - positives.mean(0)).norm() - self.queue.gap) ** 2
        return robust + uniform + gap


@pytest.fixture(scope="module")
def world():
    encoder = ToyEncoder(dtype=torch.float64)
    return encoder, toy_gallery(encoder, 150), toy_queries(12, SIZE, 150)


def test_tcr_is_the_published_code(world):
    encoder, gallery, batches = world
    plain, published = Plain(encoder, gallery, LR, TAU), Published()
    answers = play(plain, batches, descend(published))
    session = Session(encoder, gallery, TCR(), lr=LR, guard=None)
    assert_same_stream(session, batches, answers)
    assert_same_params(session, plain)
    assert published.queue.sizes == [19, 38, 57, 64, 64, 64, 64, 64, 64, 64]
    pairs = session.state.memory
    kept = sorted(entry[0] for entry in published.queue.entries)
    assert pairs.distances.tolist() == pytest.approx(kept, abs=1e-8)
    assert pairs.entropies.max().item() == pytest.approx(published.queue.limit, abs=1e-8)
    assert pairs.gap.item() == pytest.approx(published.queue.gap.item(), abs=1e-8)


@pytest.mark.parametrize("wrap", [lambda method: method, Decoupled], ids=["plain", "decoupled"])
def test_the_reported_share_of_reliable_queries_is_by_the_methods_own_entropies(world, wrap):
    encoder, gallery, batches = world
    session = Session(encoder, gallery, wrap(TCR()), lr=LR, guard=None)
    for items in batches[:4]:
        seen = session.answer(items)
        unsure = entropies(seen.vectors @ seen.top(1).vectors[:, 0, 0].T / TAU)
        trusted = unsure < session.state.memory.entropies.max() + 1e-3
        assert session.stats().reliable == pytest.approx(trusted.double().mean().item())


@pytest.mark.parametrize("score_from", ["before", "after"])
def test_other_answers_of_the_same_adaptation(world, score_from):
    encoder, gallery, batches = world
    plain, rule = Plain(encoder, gallery, LR, TAU), descend(Published())
    answers = []
    for number, items in enumerate(batches[:3]):
        items = items.double()
        before = plain.scores(plain.model(items)).detach()
        for step in range(3):
            rule(plain, items, number, step)
        after = plain.scores(plain.model(items)).detach()
        answers.append({"before": before, "after": after}[score_from])
    session = Session(encoder, gallery, TCR(), lr=LR, score_from=score_from, guard=None)
    assert_same_stream(session, batches[:3], answers)


def test_a_short_last_batch_is_adapted_to_and_does_not_shrink_the_queue(world):
    encoder, gallery, batches = world
    stream = [*batches[:4], batches[4][:8]]
    plain, published = Plain(encoder, gallery, LR, TAU), Published()
    answers = play(plain, stream, descend(published))
    session = Session(encoder, gallery, TCR(), lr=LR, guard=None)
    assert_same_stream(session, stream, answers)
    assert_same_params(session, plain)
    assert len(session.state.memory) == 64


def test_tcr_untrained_is_the_closed_form(world):
    encoder, gallery, batches = world
    batches = [*(items + 2 for items in batches), toy_items(SIZE)]  # the last has the smaller gap
    plain, queue, scale = Plain(encoder, gallery, LR, TAU), Queue(), 1.5
    shares = []

    def rule(plain: Plain, items: Tensor, number: int, step: int) -> Tensor:
        queries = plain.model(items).detach()
        positives = plain.gallery[plain.scores(queries).argmax(dim=1)]
        if number < 10:
            queue.update(queries, positives, entropies(queries @ positives.T / TAU))
        centre = queries.mean(0)
        offset = positives.mean(0) - centre
        shares.append(float(1 - queue.gap / offset.norm()))
        moved = scale * (queries - centre) + centre + shares[-1] * offset
        return plain.scores(moved / moved.norm(dim=1, keepdim=True))

    answers = play(plain, batches, rule, steps=1)
    session = Session(encoder, gallery, TCRUntrained(scale=scale), guard=None)
    assert_same_stream(session, batches, answers)
    assert session.params == {}
    assert max(shares) > 0 > shares[-1]
