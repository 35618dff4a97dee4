"""Sessions on threads of their own do not wait for each other's forwards."""

import threading
import time

import pytest
from torch import Tensor

from queryshift import METHODS, Session
from toy import ToyEncoder, toy_gallery, toy_queries

THREADS = 8
FORWARD_S = 0.3  # far more than what Python and torch need for so small a model


class SlowEncoder(ToyEncoder):
    """Its forward takes its time outside Python's lock, as a big model's does."""

    pause = 0.0

    def forward(self, prepared: Tensor) -> Tensor:
        time.sleep(self.pause)
        return super().forward(prepared)


def seconds(sessions: list[Session], batches: list[Tensor]) -> float:
    """How long it takes to answer the batches with every session, each on its thread."""

    def answer_all(session: Session) -> None:
        for batch in batches:
            session.answer(list(batch)).top(1)

    threads = [threading.Thread(target=answer_all, args=(session,)) for session in sessions]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tent", "tcr"])
def test_eight_sessions_take_little_longer_than_one(method):
    encoder = SlowEncoder()
    gallery, batches = toy_gallery(encoder), toy_queries(2, 8)
    encoder.pause = FORWARD_S

    def sessions(count: int) -> list[Session]:
        return [Session(encoder, gallery, METHODS[method]()) for _ in range(count)]

    seconds(sessions(1), batches[:1])  # what is made once: the views of the model, the clusters
    alone = seconds(sessions(1), batches)
    together = seconds(sessions(THREADS), batches)
    assert together <= 1.5 * alone, f"{THREADS} sessions took {together:.2f} s, one {alone:.2f} s"
