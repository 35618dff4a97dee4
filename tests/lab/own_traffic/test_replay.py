"""A replay: ranks of every right answer, and the time of the answers alone."""

import logging
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift.lab.own_traffic import replay as replays
from queryshift.lab.own_traffic.replay import replay, session_of
from queryshift.lab.own_traffic.traffic import traffic

VECTORS = list(np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32))


def test_queries_may_have_different_numbers_of_right_answers():
    right = {0: [0], 2: [2, 5, 7], 3: [3, 1], 9: [9]}
    asked = traffic(None, VECTORS, VECTORS, answers=right)
    found = replay(asked, session_of(asked, "frozen"), "frozen", batch=4).ranks
    unit = torch.nn.functional.normalize(torch.tensor(np.array(VECTORS)), dim=1)
    order = (unit @ unit.T).argsort(dim=1, descending=True).tolist()
    ranks = [sorted(order[row].index(one) + 1 for one in some) for row, some in right.items()]
    assert found.tolist() == [some + [0] * (3 - len(some)) for some in ranks]


def test_without_right_answers_there_are_no_ranks():
    asked = traffic(None, VECTORS, VECTORS)
    found = replay(asked, session_of(asked, "frozen"), "frozen", batch=4)
    assert (len(found.ranks), len(found.top), len(found.vectors)) == (0, 10, 10)


@pytest.mark.parametrize(("batch", "batches"), [(3, 4), (10, 1)])
def test_seconds_are_those_from_each_batch_to_its_answer(monkeypatch, batch, batches):
    now = iter(range(100, 200))
    monkeypatch.setattr(replays, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    right = {row: [row] for row in range(10)}
    done = qs.evaluate(None, VECTORS, VECTORS, matches=right, methods=["frozen"], batch_size=batch)
    assert done.cells[0].seconds == batches
    assert done.rows[0].seconds_per_query == pytest.approx(batches / 10)
    assert (done.cells[0].shift, done.cells[0].severity) == ("as it came", 0)


def test_what_the_guard_does_is_said_once_with_the_methods_name(caplog):
    texts = [f"a red square and {count} circles" for count in range(8)]
    asked = traffic("tangram", texts, texts)
    session = qs.Session(asked.encoder, asked.gallery, qs.Tent(), lr=math.inf, name="tent")
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, logger="queryshift"):
        warnings.simplefilter("error")
        replay(asked, session, "tent", batch=8)
    (record,) = caplog.records
    assert record.getMessage().startswith("session tent, batch 1: not finite")
    assert repr(session_of(asked, "default")).startswith("Session(default: ")
