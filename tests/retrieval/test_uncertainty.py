"""Repeats and the latest queries, at the smallest sizes."""

import pytest
import torch

from queryshift.retrieval.hubness.query_bank import QueryBank
from queryshift.retrieval.uncertainty import LATEST, doubt, keys_of, latest, no_doubt, repeated

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("keys", "marks"),
    [([5], [False]), ([5, 5], [False, True]), ([5, 6], [False, False]), ([5, 5, 5], [0, 1, 1])],
)
def test_of_few_queries_all_but_the_first_of_equal_ones_are_repeats(keys, marks):
    assert repeated(torch.tensor(keys)).tolist() == marks
    lacked = QueryBank.empty(3, CPU).lacks(torch.tensor(keys))
    assert lacked.tolist() == [not mark for mark in marks]


def test_before_its_first_query_a_stream_is_at_the_end_of_no_doubt():
    """What follows can only add to it: a query that knows nothing adds its share of the latest."""
    before = no_doubt(CPU)
    assert float(doubt(before)) == pytest.approx(0, abs=1e-6)
    known = latest(before, torch.ones(1))
    assert float(doubt(known)) == pytest.approx(2 * (1 - 0.35) / LATEST / 0.3, rel=1e-4)


def test_keys_are_the_same_for_each_vector_alone_and_in_a_batch():
    vectors = torch.randn(40, 7, generator=torch.Generator().manual_seed(0))
    keys = keys_of(vectors)
    assert keys.dtype == torch.long and len(keys.unique()) == 40
    assert torch.equal(torch.cat([keys_of(one) for one in vectors.split(1)]), keys)
