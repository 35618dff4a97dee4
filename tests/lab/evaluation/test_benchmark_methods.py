"""What a benchmark wishes of a method, and what a spec says against it."""

import pytest

from queryshift import METHODS, Session
from queryshift.errors import UnknownName
from queryshift.lab.evaluation.benchmark_methods import (
    DEFAULT,
    checked,
    method_of,
    session_of,
    settings_of,
)
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from toy import ToyEncoder, toy_gallery

ONLINE, DIVERSE = BENCHMARKS["coco-o-image"], BENCHMARKS["coco-d-image"]


@pytest.mark.parametrize("name", METHODS)
def test_baselines_get_the_row_s_temperature(name):
    method = method_of(name, ONLINE)
    assert type(method) is METHODS[name]
    own = name in ("tcr", "rest", "infomax", "tcr_untrained")  # the paper's 0.02 everywhere
    assert method.temperature == (None if own else ONLINE.temperature)


def test_what_is_said_wins_over_the_row():
    assert method_of("tent:temperature=0.5", ONLINE).temperature == 0.5
    assert method_of("rest", DIVERSE).decouple
    assert not method_of("rest:decouple=false", DIVERSE).decouple


def test_other_methods_are_decoupled_where_it_is_said_only():
    assert method_of("tent", DIVERSE).name == "tent"
    assert method_of("tent+decoupled", DIVERSE).name == "tent+decoupled"
    assert method_of("rest+decoupled", DIVERSE) == method_of("rest", DIVERSE)


def test_the_default_is_a_session_that_is_told_nothing():
    encoder = ToyEncoder()
    gallery = toy_gallery(encoder)
    session = session_of(DEFAULT, ONLINE, encoder, gallery, seed=0)
    assert session.method == Session(encoder, gallery).method
    assert session_of("rest+hubs", ONLINE, encoder, gallery, seed=0).method.name == "rest"
    assert settings_of(DEFAULT, ONLINE, encoder) == {}
    assert settings_of("rest:lr=0.5", ONLINE, encoder)["lr"] == 0.5


def test_specs_are_checked_and_written_in_one_way():
    assert checked(DEFAULT, ONLINE) == DEFAULT
    assert checked("rest: mining=False, gap=false", ONLINE) == "rest:gap=false,mining=false"
    with pytest.raises(UnknownName, match="defualt"):
        checked("defualt", ONLINE)
