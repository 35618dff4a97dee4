"""Checks of vectors that an engine stores, and of vectors to be stored there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.errors import BadInput, GalleryMismatch

from .candidate_checks import LENGTH_TOLERANCE, checked_ids, checked_vectors
from .hits import Id

Metric = Literal["cosine", "inner product", "euclidean"]
LOOKED_AT = 256  # vectors whose lengths are checked when a collection is opened
ROUNDING = 1e-5  # of lengths in float32: vectors this close to unit length are not rescaled
METRICS: dict[str, Metric] = {
    "cosine": "cosine",
    "ip": "inner product",
    "dot": "inner product",
    "l2": "euclidean",
    "euclid": "euclidean",
}


def checked_engine_vectors(vectors: Any, dimension: int, metric: Metric) -> Tensor:
    """Return vectors (n, D) or (n, V, D) as unit vectors (n, V, D) in float32, or raise.

    An engine that ranks by cosine may store vectors of any length: they are rescaled. By inner
    product or distance, longer vectors would rank first, so they are refused.
    """
    plain = torch.from_numpy(np.array(vectors, dtype=np.float32))
    if plain.ndim not in (2, 3) or plain.shape[-1] != dimension:
        raise GalleryMismatch(
            f"the engine gave vectors of shape {tuple(plain.shape)}, expected (candidates, "
            f"{dimension}): is it the right collection and vector field?"
        )
    lengths = torch.linalg.vector_norm(plain, dim=-1)
    wrong = (lengths - 1).abs()
    if bool((wrong <= ROUNDING).all()):
        return plain if plain.ndim == 3 else plain[:, None]
    if metric != "cosine" and bool((wrong > LENGTH_TOLERANCE).any()):
        raise BadInput(
            f"the engine ranks by {metric} and holds vectors of length {float(lengths.min()):.3g} "
            f"to {float(lengths.max()):.3g}, so that long ones come first: store unit vectors, or "
            "make the index for cosine."
        )
    return checked_vectors(plain, rescale=metric == "cosine")


def plain_id(stored: Any) -> Id:
    """Return an id as sessions take it: whole numbers stay, everything else becomes text.

    Examples:
        >>> from queryshift.galleries.stored_vectors import plain_id
        >>> plain_id(7), plain_id("seven"), plain_id(7.5)
        (7, 'seven', '7.5')
    """
    whole = isinstance(stored, int | np.integer) and not isinstance(stored, bool)
    return int(stored) if whole else str(stored)


def known_metric(collection: str, metric: str) -> Metric:
    """Return the metric of a collection; refuse one that does not rank as the cosine does.

    Args:
        collection: Its name, for errors.
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
    """Return vectors to be stored as float32 (N, D), one for each id."""
    checked_ids(ids, len(vectors))
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    if array.ndim != 2 or not len(array):
        raise BadInput(
            f"got vectors of shape {array.shape}, expected (candidates, dimensions) with at least "
            "one candidate."
        )
    return array
