"""Lazy attributes: computed once, kept per instance, and no lock between instances."""

import threading
from dataclasses import dataclass

import pytest

from queryshift.support.threads import lazy_property


@dataclass(frozen=True)
class Squared:
    number: int
    computed: list[int]

    @lazy_property
    def value(self) -> int:
        """The square."""
        self.computed.append(self.number)
        return self.number**2


def test_a_value_is_computed_once_for_each_instance_of_a_frozen_dataclass():
    computed: list[int] = []
    three, four = Squared(3, computed), Squared(4, computed)
    assert [three.value, three.value, four.value, three.value] == [9, 9, 16, 9]
    assert computed == [3, 4]
    assert Squared.value.__doc__ == "The square."


def test_an_error_is_not_kept():
    class Flaky:
        tries = 0

        @lazy_property
        def value(self) -> int:
            self.tries += 1
            if self.tries == 1:
                raise ValueError
            return self.tries

    flaky = Flaky()
    with pytest.raises(ValueError):
        _ = flaky.value
    assert flaky.value == 2 == flaky.value


def test_two_instances_compute_at_the_same_time():
    both = threading.Barrier(2, timeout=10)  # broken unless two threads compute at once

    class Meeting:
        @lazy_property
        def place(self) -> int:
            return both.wait()

    places: list[int] = []
    threads = [threading.Thread(target=lambda: places.append(Meeting().place)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == [0, 1]
