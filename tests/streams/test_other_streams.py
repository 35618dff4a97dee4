"""The first steps of every other adapting method against a plain loop."""

import other_rules as rules
import pytest
import torch
from plain_loops import Plain, Rule, assert_same_params, assert_same_stream, play

from queryshift import methods
from queryshift.methods.eata import fisher_of
from queryshift.sessions.session import Session
from toy import ToyEncoder, toy_gallery, toy_items, toy_queries

LR, TAU = 3e-3, 0.01


@pytest.fixture(scope="module")
def world():
    encoder = ToyEncoder(dtype=torch.float64)
    return encoder, toy_gallery(encoder, 150), toy_queries(4, 32, 150)


def assert_agree(
    world, method: methods.Method, rule: Rule, plain_of: type[Plain] = Plain, tau: float = TAU
) -> Session:
    encoder, gallery, batches = world
    plain = plain_of(encoder, gallery, LR, tau)
    answers = play(plain, batches, rule)
    session = Session(encoder, gallery, method, lr=LR, guard=None)
    assert_same_stream(session, batches, answers)
    assert_same_params(session, plain)
    return session


@pytest.mark.parametrize("name", ["tent", "pl", "shot", "read", "come"])
def test_methods_that_follow_their_loss(world, name):
    assert_agree(world, methods.METHODS[name](), getattr(rules, name))


@pytest.mark.parametrize("tau", [0.001, 0.05])
@pytest.mark.parametrize("name", ["tent", "shot", "read"])
def test_at_other_temperatures(world, name, tau):
    method = methods.METHODS[name](temperature=tau)
    assert_agree(world, method, getattr(rules, name), tau=tau)


def test_tsa(world):
    assert_agree(world, methods.TSA(), rules.tsa, plain_of=rules.Modules)


class TestEata:
    def test_without_fisher(self, world):
        loop = rules.Eata()
        assert_agree(world, methods.EATA(), rules.descend(loop))
        assert loop.kept[0] == int(0.4 * 32)  # nothing is familiar at first
        assert min(loop.kept) < loop.kept[0]  # then something is

    def test_official_filter(self, world):
        assert_agree(world, methods.EATA(filter="log"), rules.descend(rules.Eata(log_filter=True)))

    def test_fisher_is_the_mean_squared_gradient_on_clean_queries(self, world):
        encoder, gallery, _ = world
        clean = toy_items(150)[:100].double()
        expected = rules.fisher(Plain(encoder, gallery, LR, TAU), clean)
        found = fisher_of(encoder, gallery, list(clean), temperature=TAU)
        assert found.keys() == expected.keys()
        for name, value in found.items():
            torch.testing.assert_close(value, expected[name], atol=1e-10, rtol=1e-10)

    def test_with_fisher(self, world):
        encoder, gallery, _ = world
        clean = toy_items(150)[:100].double()
        importance = rules.fisher(Plain(encoder, gallery, LR, TAU), clean)
        given = {name: value / 100 for name, value in importance.items()}
        anchored = rules.descend(rules.Eata(fisher=given))
        session = assert_agree(world, methods.EATA(fisher=given), anchored)
        free = assert_agree(world, methods.EATA(), rules.descend(rules.Eata()))
        assert any((v - free.params[n]).abs().max() > 1e-4 for n, v in session.params.items())


class TestSar:
    def test_without_a_reset(self, world):
        loop = rules.Sar()
        session = assert_agree(world, methods.SAR(temperature=0.05), loop, tau=0.05)
        assert session.stats().resets == loop.resets == 0
        assert session.state.memory == pytest.approx(loop.average, abs=1e-8)

    @pytest.mark.parametrize("keep_average", [False, True], ids=["cleared", "official quirk"])
    def test_returns_to_the_source_when_all_is_easy(self, world, keep_average):
        encoder, gallery, batches = world
        loop = rules.Sar(keep_average=keep_average)
        plain = Plain(encoder, gallery, LR, 0.01)
        answers = play(plain, batches, loop)
        session = Session(
            encoder, gallery, methods.SAR(keep_average=keep_average), lr=LR, guard=None
        )
        assert_same_stream(session, batches, answers)
        for name, value in session.params.items():
            torch.testing.assert_close(value, plain.params[name].detach(), atol=1e-8, rtol=0)
        assert session.stats().resets == loop.resets > 0
