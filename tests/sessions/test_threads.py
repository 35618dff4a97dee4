"""Many sessions share an encoder from many threads; calls on one session take turns."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from miniature import Toy, same, stream
from queryshift import METHODS, REST, Gallery, Session

NAMES = ("rest", "tent", "tcr", "sar", "tsa", "eata", "tcr_untrained", "shot")


def answers(session, batches):
    return [session.answer(batch).top(5) for batch in batches]


@pytest.mark.parametrize("chunk", [None, 5])
def test_eight_threads_answer_as_each_would_alone(clean, chunk):
    toy = Toy()
    gallery = Gallery.build(toy, clean)
    streams = {name: stream(clean, 8, seed=100 * n) for n, name in enumerate(NAMES)}

    def run(name):
        session = Session(toy, gallery, METHODS[name](), lr=0.01, chunk=chunk)
        barrier.wait()
        return answers(session, streams[name]), session.state

    barrier = threading.Barrier(1)
    alone = [run(name) for name in NAMES]
    barrier = threading.Barrier(len(NAMES))
    with ThreadPoolExecutor(len(NAMES)) as pool:
        together = list(pool.map(run, NAMES))
    assert same(together, alone)


def in_every_order(session, batches, found, asked=frozenset()):
    """Sessions that were asked all batches one after another, and gave the answers found.

    Several orders may begin with the same answers, so all of them are tried.
    """
    if len(asked) == len(batches):
        yield session
    for number in set(range(len(batches))) - asked:
        one = session.fork()
        if same(one.answer(batches[number]).top(5), found[number]):
            yield from in_every_order(one, batches, found, asked | {number})


def test_calls_on_one_session_take_turns(encoder, gallery, batches):
    """Whatever the order the threads come in, it is some order: nothing is lost or mixed."""
    session = Session(encoder, gallery, REST(), lr=0.01)
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda batch: session.answer(batch).top(5), batches))
    assert [one.batch for one in session.history] == [1, 2, 3, 4, 5]
    in_turn = in_every_order(Session(encoder, gallery, REST(), lr=0.01), batches, found)
    assert any(same(one.state, session.state) for one in in_turn)


def test_a_session_can_be_saved_while_another_thread_asks(encoder, gallery, batches, tmp_path):
    session = Session(encoder, gallery, REST(), lr=0.01)
    asking = threading.Thread(target=lambda: [session.answer(batch) for batch in batches * 3])
    asking.start()
    for number in range(5):
        session.save(tmp_path / f"{number}")
    asking.join()
    for number in range(5):
        kept = Session.load(tmp_path / f"{number}", encoder, gallery)
        assert kept.state.batches == len(kept.history)


def test_a_failing_call_lets_the_next_one_in(encoder, gallery, batches):
    session = Session(encoder, gallery, REST())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(session.answer, []).exception() is not None
    assert len(session.answer(batches[0]).top(1)) == 12
