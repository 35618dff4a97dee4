"""Queues by tenant: one of each in turn, bounded."""

import doctest

import pytest

from queryshift import Error
from queryshift.serving.answering import queues
from queryshift.serving.answering.queues import FairQueue
from queryshift.serving.http import access


def test_turns_are_one_of_each_and_bounded():
    queue = FairQueue[int](most=5, most_of_one=3)
    queue.put("loud", [1, 2, 3])
    queue.put("quiet", [4])
    with pytest.raises(Error, match="3 queries are waiting"):
        queue.put("loud", [5])
    with pytest.raises(Error, match="4 queries are waiting, and at most 5"):
        queue.put("third", [6, 7])
    queue.forget("quiet")
    assert [queue.take() for _ in range(4)] == [("loud", 1), ("loud", 2), ("loud", 3), None]
    assert queue.waiting == 0


def test_who_does_not_fit_is_passed_over():
    queue = FairQueue[int](most=5, most_of_one=3)
    queue.put("loud", [1, 2, 3])
    queue.put("quiet", [4])
    fits = lambda tenant, one: tenant != "loud"  # noqa: E731
    assert [queue.take(fits) for _ in range(2)] == [("quiet", 4), None]
    assert queue.waiting == 3 and queue.more_of("loud", fits) is None
    assert queue.more_of("loud") == 1 and queue.take() == ("loud", 2)


def test_who_floods_is_busy_until_it_has_not_for_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(queues.time, "monotonic", lambda: now[0])
    demand = queues.Demand()
    for _ in range(30):  # one after another, as fast as answers come
        demand.note("loud", 1)
        demand.note("quiet", 1)
    assert demand.busy() == set()
    demand.note("loud", 5)
    assert demand.busy() == {"loud"} and len(demand) == 2
    now[0] += 1.1
    demand.note("quiet", 1)
    demand.note("loud", 1)
    assert demand.busy() == {"loud"}
    now[0] += 1.1
    demand.note("quiet", 1)
    assert demand.busy() == set() and len(demand) == 2
    now[0] += 5
    assert demand.busy() == set() and len(demand) == 0


@pytest.mark.parametrize(("later", "busy"), [(1.9, {"loud"}), (2.5, set())])
def test_a_flood_is_forgotten_when_nobody_asked_for_two_seconds(later, busy, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(queues.time, "monotonic", lambda: now[0])
    demand = queues.Demand()
    demand.note("loud", 50)
    demand.note("quiet", 1)
    now[0] += later
    demand.note("quiet", 1)
    assert demand.busy() == busy


@pytest.mark.parametrize(("platform", "steps"), [("linux", [10]), ("darwin", [])])
def test_who_decodes_gives_way_where_a_thread_has_a_priority(platform, steps, monkeypatch):
    given = []
    monkeypatch.setattr(queues.sys, "platform", platform)
    monkeypatch.setattr(queues.os, "nice", given.append)
    queues.give_way()
    assert given == steps


@pytest.mark.parametrize("module", [queues, access])
def test_the_examples_run(module):
    assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted
