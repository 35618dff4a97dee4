"""What a benchmark wishes of a method, and what a spec says against it."""

import pytest

from queryshift import METHODS
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS

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
