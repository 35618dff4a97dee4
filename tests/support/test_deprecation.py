"""Old public names warn, name the new one, and work as before for one minor version."""

from dataclasses import replace

import pytest

import queryshift as qs
from queryshift.sessions.batch_stats import BatchStats
from queryshift.support.deprecation import DROPPED_IN, renamed_arguments

SAMPLE = qs.ReferenceQueries(mean=0.9, deviation=0.1, count=100)


@pytest.mark.parametrize(
    "old, new", [("Ordinary", "ReferenceQueries"), ("OrdinaryWarning", "ReferenceWarning")]
)
def test_old_names_of_the_package(old, new):
    with pytest.warns(DeprecationWarning, match=f"queryshift.{old} is now queryshift.{new}"):
        found = getattr(qs, old)
    assert found is getattr(qs, new) and old not in qs.__all__


def test_a_guard_takes_its_sample_by_the_old_name():
    with pytest.warns(DeprecationWarning, match=r"Guard\(ordinary=\) is now Guard\(reference=\)"):
        guard = qs.Guard(ordinary=SAMPLE)
    assert guard == qs.Guard(reference=SAMPLE)
    with pytest.warns(DeprecationWarning, match="Guard.ordinary is now Guard.reference"):
        assert guard.ordinary is SAMPLE
    with pytest.warns(DeprecationWarning):
        assert replace(qs.Guard(collapse=0.4), ordinary=SAMPLE) == qs.Guard(0.4, 0.19, SAMPLE)


def test_statistics_have_their_old_name():
    values = (1, 8, True, 0.5, 0.1, None, 0.7, 0.2, None)
    with pytest.warns(DeprecationWarning, match="BatchStats.strangeness is now BatchStats.shift_s"):
        assert BatchStats(*values, shift_score=2.5).strangeness == 2.5


def test_functions_take_old_arguments_and_say_until_when():
    @renamed_arguments(colour="color")
    def painted(color, width=1):
        return color, width

    with pytest.warns(DeprecationWarning, match=f"goes in version {DROPPED_IN}") as warned:
        assert painted(colour="red", width=2) == ("red", 2)
    assert warned[0].filename == __file__
    assert painted(color="red") == ("red", 1)
