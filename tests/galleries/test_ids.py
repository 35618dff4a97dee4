"""Ids: text and whole numbers, of Python or of arrays; nothing that only looks like one."""

import numpy as np
import pytest
import torch

from queryshift.errors import BadInput
from queryshift.galleries.candidate_checks import checked_ids, plain_id


@pytest.mark.parametrize(
    ("ids", "plain"),
    [
        (["a", 7], ["a", 7]),
        (np.array([7, 8]), [7, 8]),
        ([np.int64(7), np.str_("a")], [7, "a"]),
        (torch.tensor([7, 8]), [7, 8]),
        ([np.array(7), torch.tensor(8)], [7, 8]),
        (range(2), [0, 1]),
    ],
)
def test_scalars_of_arrays_are_plain_numbers_and_text(ids, plain):
    found = checked_ids(ids, 2)
    assert found == plain and {type(one) for one in found} <= {int, str}


@pytest.mark.parametrize(
    "one", [np.array([7]), torch.tensor([7]), torch.tensor(7, device="meta"), 7.5, True, None, [7]]
)
def test_an_array_of_one_is_no_id(one):
    with pytest.raises(BadInput, match="expected text or a whole number"):
        checked_ids(["a", one], 2)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["a"], "got 1 ids for 2 candidates"),
        (["a", "a"], "'a' stands more than once"),
        (7, "got 7 as ids"),
    ],
)
def test_each_candidate_has_one_of_its_own(ids, told):
    with pytest.raises(BadInput, match=told):
        checked_ids(ids, 2)


@pytest.mark.parametrize(
    ("stored", "plain"), [(7, 7), (np.int32(7), 7), (True, "True"), (7.5, "7.5"), ("a", "a")]
)
def test_ids_of_an_engine(stored, plain):
    assert plain_id(stored) == plain and type(plain_id(stored)) is type(plain)
