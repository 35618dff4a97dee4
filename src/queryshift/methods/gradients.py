"""Parameter vectors as one: dot product, norm, angle, and the decoupling of Section 3.6."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from queryshift.encoders.encoder import Params

from .optimiser import flat_vector


def dot(left: Params, right: Params) -> Tensor:
    """Inner product over all tensors as one vector."""
    return torch.dot(flat_vector(left, left), flat_vector(right, left))


def norm(params: Params) -> Tensor:
    """Length over all tensors as one vector."""
    return cast(Tensor, torch.linalg.vector_norm(flat_vector(params, params)))


def scale(params: Params, factor: Tensor | float) -> Params:
    """Every tensor times `factor`."""
    return {name: value * factor for name, value in params.items()}


def angle(left: Params, right: Params) -> Tensor:
    """Degrees between two parameter vectors; 90 where one of them is zero."""
    lengths = norm(left) * norm(right)
    cosine = torch.where(lengths > 0, dot(left, right) / lengths.clamp(min=1e-30), 0.0)
    return torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))


def decouple(domain: Params, general: Params) -> Params:
    """`domain` without its part against `general`, over all tensors as one vector (Theorem 2)."""
    against = dot(domain, general).clamp(max=0)
    size = dot(general, general)
    share = torch.where(size > 0, against / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)
    return {name: value - share * general[name] for name, value in domain.items()}


def decouple_each(domain: Params, general: Params) -> Params:
    """The same, tensor by tensor: also never against the general direction, but stricter."""
    return {
        name: decouple({name: value}, {name: general[name]})[name] for name, value in domain.items()
    }
