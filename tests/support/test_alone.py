"""One thread alone: others wait for it, and nobody waits for ever."""

import threading
import time

import pytest

from queryshift.support import threads as module
from queryshift.support.threads import alone, working


class AtWork(threading.Thread):
    """A thread that works until it is told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.begun, self.over = threading.Event(), threading.Event()

    def run(self):
        with working(), working():
            self.begun.set()
            self.over.wait(20)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join(20)


def test_who_is_alone_has_waited_for_those_at_work():
    with AtWork() as other:
        assert other.begun.wait(20)
        threading.Timer(0.05, other.over.set).start()
        with alone() as granted:
            assert granted and other.over.is_set()


def test_nobody_begins_while_one_is_alone():
    other = AtWork()
    with alone() as granted:
        other.start()
        assert granted and not other.begun.wait(0.05)
        with working():  # what it does itself is its own work
            pass
    assert other.begun.wait(20)
    other.over.set()
    other.join(20)


def test_nobody_waits_for_ever_for_those_at_work(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAIT_S", 0.05)
    with AtWork() as other, working():
        assert other.begun.wait(20)
        with alone() as granted:
            assert not granted
    with alone() as granted:
        assert granted


def test_all_that_work_may_be_alone_one_after_the_other(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAIT_S", 20)
    ready, inside, most, granted = threading.Barrier(8), [], [], []

    def record():
        with working():
            ready.wait(20)  # all of them work, and want to be alone at once
            with alone() as found:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()
                granted.append(found)

    threads = [threading.Thread(target=record) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert granted == [True] * 8 and max(most) == 1
    assert not module._at_work and not module._waiting and not module._recording


def test_an_error_lets_others_go_on():
    for kind in (working, alone):
        with pytest.raises(ZeroDivisionError), kind():
            raise ZeroDivisionError
    with AtWork() as other:
        assert other.begun.wait(20)


def test_a_fork_waits_for_no_thread_of_its_parent(forked):
    def works():
        with working(), alone() as granted:
            return granted

    with AtWork() as other:
        assert other.begun.wait(20)
        assert forked(works)
    with alone():
        pass
