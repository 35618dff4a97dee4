"""What the vectors of an engine must be: finite, of the dimension, at unit length."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from queryshift.errors import BadInput, GalleryMismatch

from .candidate_checks import LENGTH_TOLERANCE, checked_vectors

Metric = Literal["cosine", "inner product", "euclidean"]
ROUNDING = 1e-5  # of lengths in float32: nearer ones are left as they are, bit for bit


def checked_engine_vectors(vectors: Any, dimension: int, metric: Metric) -> Tensor:
    """Vectors (n, D) or (n, V, D) as unit vectors (n, V, D) in float32, or an error.

    An engine that ranks by cosine may hold vectors of any length: they are scaled. By inner product
    or distance, longer vectors would come first, and are refused.
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
