"""Values that nobody would hand over on purpose, as Hypothesis strategies."""

import math
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

DIMENSION = 4
FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=64)
NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from((2**31, 2**63, 2**64, -(2**70), 10**400)),
    FLOATS,
    st.sampled_from((math.nan, math.inf, -0.0, 1e308, 5e-324)),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(("", " ", "\x00", "\ud800", "[/]", "../..", "\x1b[31m", "=1+1", "é" * 3)),
)


def _tensors() -> st.SearchStrategy[Any]:
    """Tensors of odd shapes, types and layouts."""
    plain = st.builds(
        lambda shape, kind: torch.ones(shape).to(kind),
        st.lists(st.integers(0, 4), max_size=3),
        st.sampled_from((torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64)),
    )
    odd = st.sampled_from(("meta", "sparse", "nan", "grad")).map(_odd_tensor)
    return st.one_of(plain, odd)


def _odd_tensor(kind: str) -> torch.Tensor:
    rows = torch.eye(3, DIMENSION)
    made = {
        "meta": lambda: rows.to("meta"),
        "sparse": rows.to_sparse,
        "nan": lambda: rows * math.nan,
        "grad": lambda: rows.clone().requires_grad_(),
    }
    return made[kind]()


def _arrays() -> st.SearchStrategy[Any]:
    kinds = st.sampled_from((np.float32, np.float64, np.uint8, np.int64, np.bool_, "U3", "M8[s]"))
    shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    return arrays.arrays(kinds, shapes)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    TEXTS,
    st.binary(max_size=12),
    _tensors(),
    _arrays(),
    st.just(object()),
    st.just(type),
    st.complex_numbers(),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(TEXTS, inner, max_size=2),
        st.tuples(inner, inner),
    ),
    max_leaves=4,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
VECTORS = st.lists(st.floats(-1, 1, width=32), min_size=DIMENSION, max_size=DIMENSION)


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Good values three times out of four, so that calls get further than their first check."""
    return st.one_of(good, good, good, bad)
