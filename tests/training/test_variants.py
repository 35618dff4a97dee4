"""The default session without one of its rules."""

from argparse import Namespace

import pytest
import torch
from training.comparison import hostile, variants, without_rules
from training.real.measure import Row

from queryshift.sessions import policy
from toy import ToyEncoder, toy_gallery, toy_queries

SHOWN = (  # by the shifted queries below, of which the source model is rather uncertain
    *("always uncertain", "rate not times the uncertainty", "rate does not fall"),
    *("every step sees the whole batch", "no hub correction", "weight at most 1"),
)


def answered(variant):
    """Scores of the last of three batches."""
    encoder = ToyEncoder()
    with variants.session_of(variant, encoder, toy_gallery(encoder)) as session:
        for batch in toy_queries(3, 32):
            scores = session.answer(batch).top(5).scores
    return scores


@pytest.mark.parametrize("rule", SHOWN)
def test_without_a_rule_answers_differ_until_the_end_of_the_block(rule, monkeypatch):
    monkeypatch.setattr(policy, "doubt", lambda chances: torch.tensor(0.8))
    before = answered("default")
    assert rule in without_rules.NAMES and not torch.equal(answered(rule), before)
    assert torch.equal(answered("default"), before)


def test_a_setting_of_a_variant_wins_over_those_given():
    encoder = ToyEncoder()
    with variants.session_of("no hub correction", encoder, toy_gallery(encoder), seed=7) as session:
        assert session.settings.hubs is None and session.settings.seed == 7


@pytest.mark.parametrize("rule", without_rules.NAMES)
def test_a_row_of_the_real_sets_is_the_default_without_a_rule(rule):
    assert Row.read(rule) == Row(spelled=False, lexical=False, method=rule)


def test_hostile_streams_ask_a_default_without_a_rule_only_guarded(tmp_path):
    methods = ["frozen", "default", "no hub correction"]
    told = Namespace(methods=methods, guards=["bare", "guarded"], world="dev", streams=["clean"])
    ((*_, runs),) = hostile.left(tmp_path / "none", Namespace(**vars(told), seeds=[0]))
    assert runs == [
        ("frozen", "bare"),
        ("default", "bare"),
        ("default", "guarded"),
        ("no hub correction", "guarded"),
    ]
