"""What the tests of the core share: one small encoder, one gallery, one stream."""

import os
import signal
import warnings

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny tensors; two test processes share two cores
os.environ.pop("QUERYSHIFT_DATA", None)  # the user's own datasets take no part
os.environ["QUERYSHIFT_HOME"] = os.devnull  # nor what the user's own checks have kept
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and processes we start would too


@pytest.fixture(scope="session")
def clean():
    """The items behind the gallery."""
    from miniature import items

    return items(60)


@pytest.fixture
def limited():
    """A function that puts limits on items in force until the test ends."""
    from queryshift.media.limits import Limits, limits, set_limits

    before = limits()
    yield lambda **changed: set_limits(Limits(**changed))
    set_limits(before)


@pytest.fixture(scope="session")
def encoder():
    """A float32 toy; it never changes, so that all tests may share it."""
    from miniature import Toy

    return Toy()


@pytest.fixture(scope="session")
def gallery(encoder, clean):
    """Sixty candidates, with ids of text."""
    from queryshift import Gallery

    return Gallery.build(encoder, clean, ids=[f"c{i}" for i in range(len(clean))])


@pytest.fixture(scope="session")
def batches(clean):
    """Five batches of twelve shifted queries."""
    from miniature import stream

    return stream(clean, 5)


@pytest.fixture
def forked():
    """Runs a check in a forked process: whether it holds there, within twenty seconds."""
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")

    def holds(check):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # we have threads, knowingly
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            failed = True
            try:
                failed = not check()
            finally:
                os._exit(failed)
        return os.waitpid(child, 0)[1] == 0

    return holds


@pytest.fixture
def count():
    """Forwards and products since the start of the test."""
    from miniature import Count

    Count.restart()
    return Count
