"""What is asked of a collection that others made: its address, its ids, its metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadInput, GalleryMismatch

from .candidate_checks import checked_ids
from .engine_vectors import Metric
from .hits import Id

LOOKED_AT = 256  # vectors whose lengths are looked at when a collection is opened
METRICS: dict[str, Metric] = {
    "cosine": "cosine",
    "ip": "inner product",
    "dot": "inner product",
    "l2": "euclidean",
    "euclid": "euclidean",
}


def address_options(query: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The options after the "?" of an address, each as its type; an unknown one is refused.

    Examples:
        >>> from queryshift.galleries.stored_vectors import address_options
        >>> address_options("ef=512&table=items", {"ef": int, "table": str})
        {'ef': 512, 'table': 'items'}
    """
    options = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in kinds:
            raise BadInput(f'no option "{name}" in this address; known: {", ".join(kinds)}.')
        try:
            options[name] = kinds[name](text)
        except ValueError:
            raise BadInput(
                f'the address says {name}={text!r}, expected a whole number: write "{name}=256".'
            ) from None
    return options


def plain_id(stored: Any) -> Id:
    """An id as sessions take it: whole numbers stay, everything else becomes text.

    Examples:
        >>> from queryshift.galleries.stored_vectors import plain_id
        >>> plain_id(7), plain_id("seven"), plain_id(7.5)
        (7, 'seven', '7.5')
    """
    whole = isinstance(stored, int | np.integer) and not isinstance(stored, bool)
    return int(stored) if whole else str(stored)


def known_metric(collection: str, metric: str) -> Metric:
    """The metric of a collection; one that does not rank as the cosine does is refused.

    Args:
        collection: What errors call it.
        metric: The engine's word for it.

    Examples:
        >>> from queryshift.galleries.stored_vectors import known_metric
        >>> known_metric("items", "IP")
        'inner product'
    """
    if metric.lower() not in METRICS:
        raise GalleryMismatch(
            f'"{collection}" is searched by the metric "{metric}", expected cosine, or inner '
            "product or Euclidean distance of unit vectors: make its index again with cosine."
        )
    return METRICS[metric.lower()]


def check_new(ids: Sequence[Id], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors to be stored, as float32 (N, D), one for each id."""
    checked_ids(ids, len(vectors))
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    if array.ndim != 2 or not len(array):
        raise BadInput(
            f"got vectors of shape {array.shape}, expected (candidates, dimensions) with at least "
            "one candidate."
        )
    return array
