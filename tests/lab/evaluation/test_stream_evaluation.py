"""A session over a stream: who is asked when, and whose rank stands where."""

from itertools import chain

import torch

from miniature import Toy
from queryshift import Frozen, Gallery, Session
from queryshift.lab.evaluation.stream_evaluation import run


class Recording(Session):
    """Remembers the batches that it is asked."""

    def answer(self, queries, *more, **settings):
        self.__dict__.setdefault("asked", []).append(list(queries))
        return super().answer(queries, *more, **settings)


def asked(clean, seed):
    toy = Toy()
    session = Recording(toy, Gallery.build(toy, clean[:10]), Frozen())
    outcome = run(session, clean[:10], [[row] for row in range(10)], seed, batch_size=4)
    whose = {id(item): row for row, item in enumerate(clean[:10])}
    return [[whose[id(item)] for item in batch] for batch in session.asked], outcome


def test_the_last_short_batch_counts(clean):
    batches, outcome = asked(clean, seed=0)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(chain.from_iterable(batches)) == list(range(10))
    assert len(outcome.all_ranks) == 10


def test_the_seed_draws_the_order(clean):
    orders = [list(chain.from_iterable(asked(clean, seed)[0])) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert list(range(10)) not in orders


def test_ranks_stand_in_the_order_of_the_queries(clean):
    toy = Toy()
    session = Session(toy, Gallery.build(toy, clean[:10]), Frozen())
    wrong = [[(row + 1) % 10] if row < 5 else [row] for row in range(10)]  # others' candidates
    outcome = run(session, clean[:10], wrong, seed=3, batch_size=4)
    ranks = torch.as_tensor(outcome.all_ranks)[:, 0]
    assert (ranks[5:] == 1).all() and (ranks[:5] > 1).all()
