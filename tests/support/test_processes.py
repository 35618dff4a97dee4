"""Work in several processes: groups kept together, failures clear, nobody left behind."""

import os
import signal
import time
import warnings
from multiprocessing import active_children

import pytest

from queryshift.errors import BadInput, Error
from queryshift.support.processes import lanes


def where(item: tuple[str, float]) -> tuple[str, int]:
    """The item's group, and the process it was worked on in."""
    group, seconds = item
    time.sleep(seconds)
    return group, os.getpid()


def fail(item: object) -> None:
    raise BadInput(f"{item} cannot be used.")


def die(item: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def two():
    with lanes(2) as processes:
        yield processes


def test_a_group_stays_in_one_process(two):
    groups = [[(name, 0.05)] * 3 for name in "abcd"]
    found = list(two.as_finished(where, groups))
    assert sorted(group for group, _ in found) == sorted("abcd" * 3)
    homes = {name: {home for group, home in found if group == name} for name in "abcd"}
    assert sum(len(one) > 1 for one in homes.values()) <= 1  # the last one may be shared


def test_processes_live_on_and_a_long_group_is_shared(two):
    before = set(active_children())
    found = list(two.as_finished(where, [[("long", 0.2)] * 6]))
    assert len({home for _, home in found}) == 2
    assert set(active_children()) == before


def test_an_error_is_the_functions_own(two):
    with pytest.raises(BadInput, match="b cannot be used"):
        list(two.as_finished(fail, [["b"]]))


def test_a_worker_that_dies_is_a_clear_error_and_ends_all():
    before = set(active_children())
    with pytest.raises(Error, match="ended from outside"), lanes(2) as processes:
        list(processes.as_finished(die, [["a"], ["b"]]))
    assert set(active_children()) == before


def warn(number):
    warnings.warn("the frost is drawn, not photographed", UserWarning, stacklevel=1)
    return number


def test_what_workers_warn_of_is_said_once_and_here():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with lanes(2) as processes:
            assert sorted(processes.as_finished(warn, [[1, 2], [3, 4]])) == [1, 2, 3, 4]
    assert [str(one.message) for one in said] == ["the frost is drawn, not photographed"]
