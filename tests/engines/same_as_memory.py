"""What every engine must do: answer and learn as the gallery in memory does."""

import numpy as np
import pytest
import torch

import queryshift as qs
from miniature import same
from queryshift.errors import BadInput, EngineLost

QUOTED = ("it's", 'a "quoted" one', "x'; DROP TABLE items; --", "back\\slash", "ключ")


def rows_of(gallery) -> np.ndarray:
    return gallery.vectors[:, 0].numpy()


def check_searches(memory, engine) -> None:
    """The same hits, scores, vectors and handles as in memory; fewer than asked; unknown ids."""
    queries = memory.vectors[:7, 0]
    ours, theirs = memory.search(queries, 10), engine.search(queries, 10)
    assert theirs.ids == ours.ids
    assert torch.allclose(theirs.scores, ours.scores, atol=1e-6)
    assert torch.allclose(theirs.vectors, ours.vectors, atol=1e-6)
    assert engine.search(queries, 10).positions.equal(theirs.positions)
    assert engine.search(queries, len(memory) + 20).positions.shape == (7, len(memory))
    assert len(engine) == engine.count() == len(memory) and engine.dimension == memory.dimension
    assert engine.known([*memory.ids[:2], "gone", -7]) == set(memory.ids[:2])
    first = theirs.positions[:, 0]
    exclude = torch.stack((torch.arange(7), first), dim=1)
    assert [row[0] for row in engine.search(queries, 3, exclude).ids] == [i[1] for i in ours.ids]
    with pytest.raises(BadInput, match="no candidate has the id 'gone'"):
        engine.positions(["gone"])


def check_samples(memory, engine) -> None:
    """All vectors where there are no more, and no vector more likely than another."""
    everything = np.sort(rows_of(memory), axis=0)
    assert np.allclose(np.sort(engine.sample(1000, 0), axis=0), everything, atol=1e-6)
    drawn = np.concatenate([engine.sample(10, seed) for seed in range(60)])
    nearest = (drawn @ rows_of(memory).T).argmax(axis=1)
    counts = np.bincount(nearest, minlength=len(memory))
    assert counts.sum() == 600 and counts.max() < 30  # 10 each; 30 has a chance of 1e-7


def check_stream(encoder, memory, engine, batches) -> None:
    """A whole stream of REST: equal answers, and parameters equal to the last bit."""
    sessions = [qs.Session(encoder, gallery, qs.REST()) for gallery in (memory, engine)]
    for batch in batches:
        ours, theirs = (session.answer(batch).top(5) for session in sessions)
        assert theirs.ids == ours.ids
    assert same(*(session.state.adapted for session in sessions))
    assert not same(sessions[0].state.adapted, qs.Session(encoder, memory, qs.REST()).state.adapted)


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
    engine.retries = 8  # a server that listens may need seconds until it answers
    for batch in batches[1:]:
        session.answer(batch)
    for batch in batches:
        undisturbed.answer(batch)
    assert same(session.state.adapted, undisturbed.state.adapted)
