"""Values that nobody would hand over on purpose, as Hypothesis strategies."""

import math
from itertools import product
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

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
    st.sampled_from(
        (
            "",
            " ",
            "\x00",
            "\ud800",
            "[/]",
            "../..",
            "\x1b[31m",
            "=1+1",
            "é" * 3,
            "x" * 300,
            "~no user/x",
        )
    ),
)


SHAPES = [shape for dims in range(4) for shape in product(range(5), repeat=dims)]


def _tensors() -> st.SearchStrategy[Any]:
    """Tensors of odd shapes, types and layouts; each is one choice, which is drawn fast."""
    kinds = (torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64)
    plain = st.sampled_from(list(product(SHAPES, kinds)))
    odd = st.sampled_from(("meta", "sparse", "nan", "grad")).map(_odd_tensor)
    return st.one_of(plain.map(lambda made: torch.ones(made[0], dtype=made[1])), odd)


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
    """Arrays of odd shapes and types, filled with the same eight bytes again and again."""
    kinds = ("f4", "f8", "u1", "i8", "?", "U3", "M8[s]")
    return st.builds(
        _array, st.sampled_from(list(product(SHAPES, kinds))), st.binary(min_size=8, max_size=8)
    )


def _array(made: tuple[tuple[int, ...], str], filling: bytes) -> np.ndarray:
    shape, kind = made
    if kind in ("f4", "f8", "u1", "i8"):
        values = np.frombuffer(filling, kind)
    else:
        values = np.frombuffer(filling, "i8").astype(kind)
    return np.resize(values, shape)


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

SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)


@st.composite
def mostly(draw: Any, good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> Any:
    """Good values three times out of four, so that calls get further than their first check.

    `st.one_of` would choose among the parts of both alike.
    """
    return draw(bad if draw(st.integers(0, 3)) == 3 else good)


def _nested(leaves: st.SearchStrategy[Any], depth: int = 2) -> st.SearchStrategy[Any]:
    """Leaves, and lists, tuples and dictionaries of them; `st.recursive` takes twice the time."""
    inner = leaves if depth == 1 else _nested(leaves, depth - 1)
    return mostly(
        leaves,
        st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(TEXTS, inner, max_size=3),
        ),
    )


ANYTHING = _nested(LEAVES)
JSON = _nested(SCALARS)
VECTORS = st.one_of(
    st.binary(min_size=DIMENSION, max_size=DIMENSION).map(
        lambda filling: [(number - 128) / 128 for number in filling]
    ),
    st.lists(st.floats(-1, 1, width=32), min_size=DIMENSION, max_size=DIMENSION),
)
