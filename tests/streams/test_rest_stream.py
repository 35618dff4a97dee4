"""REST, twelve batches of 64, with and without decoupling, against the paper as a plain loop."""

import pytest
import torch
from paper_loop import TAU, K, Paper
from plain_loops import SIZE, Plain, assert_same_params, assert_same_stream, play

from queryshift.methods import REST
from queryshift.sessions.session import Session
from toy import ToyEncoder, toy_gallery, toy_queries

LR = 3e-3


@pytest.fixture(scope="module")
def world():
    encoder = ToyEncoder(dtype=torch.float64)
    return encoder, toy_gallery(encoder, 150), toy_queries(12, SIZE, 150)


def assert_agree(world, batches: int, **choices) -> Session:
    encoder, gallery, stream = world
    plain, paper = Plain(encoder, gallery, LR, TAU), Paper(gallery.centroids(K), **choices)
    answers = play(plain, stream[:batches], paper)
    session = Session(encoder, gallery, REST(**choices), lr=LR, guard=None)
    assert_same_stream(session, stream[:batches], answers)
    assert_same_params(session, plain)
    pairs = session.state.memory
    assert pairs.batches == min(batches, 10)
    assert pairs.distances.tolist() == pytest.approx(
        sorted(entry[0] for entry in paper.queue.entries), abs=1e-8
    )
    assert paper.queue.sizes == [19, 38, 57, 64, 64, 64, 64, 64, 64, 64][:batches]
    return session


def test_rest_is_the_paper(world):
    session = assert_agree(world, batches=12)
    assert 0 < session.stats().reliable < 1  # some are trusted, some are not


def test_rest_with_decoupling_is_the_paper(world):
    session = assert_agree(world, batches=12, decouple=True)
    assert any(shift.domain_angle > 90 for shift in session.history)
    assert all(shift.applied_angle <= 90 + 1e-6 for shift in session.history)


@pytest.mark.parametrize(
    "choices",
    [
        {"duplicates": "merge"},
        {"own_copies": False},
        {"consistency": "clamp"},
        {"uniformity_scale": 0.1},
        {"decouple": True, "weight_on": "lr"},
        {"decouple": True, "over": "tensor"},
        {"decouple": True, "duplicates": "merge"},
    ],
    ids=str,
)
def test_every_choice_the_paper_leaves_open(world, choices):
    assert_agree(world, batches=3, **choices)


@pytest.mark.parametrize("dropped", ["uniformity", "gap", "entropy", "mining"])
def test_every_term_acts(world, dropped):
    encoder, gallery, stream = world
    whole = Session(encoder, gallery, REST(), lr=LR, guard=None)
    part = Session(encoder, gallery, REST(**{dropped: False}), lr=LR, guard=None)
    for session in (whole, part):
        session.answer(stream[0])
    changed = [(value - part.params[name]).abs().max() for name, value in whole.params.items()]
    assert max(changed) > 1e-5
