"""What every engine must do besides the contract of galleries: fair samples, and restarts."""

import numpy as np
import pytest
from servers import wait_until

import queryshift as qs
from miniature import same
from queryshift.errors import EngineLost

QUOTED = ("it's", 'a "quoted" one', "x'; DROP TABLE items; --", "back\\slash", "ключ")


def rows_of(gallery) -> np.ndarray:
    return gallery.vectors[:, 0].numpy()


def check_samples(memory, engine) -> None:
    """All vectors where there are no more, and no vector more likely than another."""
    everything = np.sort(rows_of(memory), axis=0)
    assert np.allclose(np.sort(engine.sample(1000, 0), axis=0), everything, atol=1e-6)
    drawn = np.concatenate([engine.sample(30, seed) for seed in range(20)])
    nearest = (drawn @ rows_of(memory).T).argmax(axis=1)
    counts = np.bincount(nearest, minlength=len(memory))
    assert counts.sum() == 600 and counts.min() >= 1 and counts.max() < 20


def answers(engine) -> bool:
    try:
        return engine.count() > 0
    except EngineLost:
        return False


def check_restart(encoder, memory, engine, batches, server) -> None:
    """A killed server: a clear error, the session as before; it goes on when the server is back."""
    engine.retries = 1
    undisturbed = qs.Session(encoder, memory, qs.REST())
    session = qs.Session(encoder, engine, qs.REST())
    session.answer(batches[0])
    before = session.state
    server.kill()
    with pytest.raises(EngineLost, match="ask again when the engine is back"):
        session.answer(batches[1])
    assert same(session.state, before)
    server.start()
    wait_until(lambda: answers(engine), 180)  # Milvus takes a minute to load collections again
    for batch in batches[1:]:
        session.answer(batch)
    for batch in batches:
        undisturbed.answer(batch)
    assert same(session.state.adapted, undisturbed.state.adapted)
