"""Query vectors that cannot be searched with are refused."""

from __future__ import annotations

import torch

from queryshift.encoders.prepared import check_finite
from queryshift.errors import BadInput, GalleryMismatch

from .forward import Forward

UNIT_TOLERANCE = 1e-2


def fitting(forward: Forward) -> Forward:
    """Refuse query vectors that are not of the gallery's dimension."""
    shape, expected = tuple(forward.vectors.shape), forward.gallery.dimension
    if len(shape) != 2 or shape[1] != expected:
        raise GalleryMismatch(
            f"query vectors have shape {shape}, the gallery has {expected} dimensions: was it "
            "built by another model?"
        )
    return forward


def checked(forward: Forward) -> Forward:
    """Refuse query vectors that cannot be searched with."""
    vectors = fitting(forward).vectors.detach()
    lengths = torch.linalg.vector_norm(vectors, dim=1).tolist()  # one wait for all of them
    if all(abs(length - 1) <= UNIT_TOLERANCE for length in lengths):  # NaN is not
        return forward
    check_finite(vectors, "the vector of query")
    raise BadInput(
        f"query vectors have length {min(lengths):.3g} to {max(lengths):.3g}, "
        "expected unit length: normalise them in the encoder's forward()."
    )
