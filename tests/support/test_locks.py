"""Locks after a fork: what another thread of the parent held can be taken in the child."""

import copy
import pickle
import threading
from contextlib import contextmanager

import pytest

from queryshift.support.threads import RenewedLock, RenewedRLock

both = pytest.mark.parametrize("kind", [RenewedLock, RenewedRLock])


@contextmanager
def held_by_another_thread(lock):
    """While this lasts, a thread holds the lock."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@both
def test_a_child_can_take_what_another_thread_held(kind, forked):
    lock = kind()
    with held_by_another_thread(lock):
        assert not lock.acquire(blocking=False)  # in the parent it is still held

        def taken_and_given_back():
            taken = lock.acquire(timeout=5)
            lock.release()
            with lock:
                return taken

        assert forked(taken_and_given_back)
        assert not lock.acquire(timeout=0.01)
    assert lock.acquire(blocking=False)


@both
def test_a_child_keeps_what_the_forking_thread_holds(kind, forked):
    lock = kind()
    with lock:

        def others_wait_until_it_is_released():
            seen = []
            attempt = threading.Thread(target=lambda: seen.append(lock.acquire(blocking=False)))
            attempt.start()
            attempt.join()
            lock.release()
            again = threading.Thread(target=lambda: seen.append(lock.acquire(blocking=False)))
            again.start()
            again.join()
            return seen == [False, True]

        assert forked(others_wait_until_it_is_released)


@both
def test_a_copy_has_a_lock_of_its_own(kind):
    lock = kind()
    with lock:
        for other in (copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
            assert type(other) is kind and other.acquire(blocking=False)


def test_one_thread_may_take_a_reentrant_lock_twice(forked):
    lock = RenewedRLock()
    with lock, lock:
        assert forked(lambda: lock.release() is None and lock.release() is None)
    with held_by_another_thread(lock):
        assert not lock.acquire(blocking=False)


def test_a_condition_can_be_made_of_one():
    changed, seen = threading.Condition(RenewedLock()), []

    def wait():
        with changed:
            seen.append(changed.wait_for(lambda: seen == ["ready"], timeout=10))

    thread = threading.Thread(target=wait)
    thread.start()
    with changed:
        seen.append("ready")
        changed.notify_all()
    thread.join()
    assert seen == ["ready", True]
