"""Derivatives of losses, and vector-Jacobian products through an encoder's forward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from queryshift.encoders.encoder import Params
from queryshift.encoders.prepared import Prepared, tensors

Cotangents = tuple[Tensor, ...]  # one per output of the encoder


def slopes_at(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The derivative of a loss at each leaf, zero where it does not depend on it."""
    slopes = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    pairs = zip(slopes, leaves, strict=True)
    return tuple(torch.zeros_like(leaf) if slope is None else slope for slope, leaf in pairs)


def vector_jacobian_products(
    outputs: tuple[Tensor, ...], cotangents: Sequence[Cotangents], params: Params
) -> tuple[Params, ...]:
    """A product for each of the cotangents; nothing here keeps the forward's graph alive."""
    return tuple(_product(outputs, slopes, params) for slopes in cotangents)


def _product(outputs: tuple[Tensor, ...], slopes: Cotangents, params: Params) -> Params:
    """One vector-Jacobian product; names that the outputs do not depend on are left out."""
    pairs = [(o, s) for o, s in zip(outputs, slopes, strict=True) if o.requires_grad]
    if not pairs:
        return {}
    with torch.enable_grad():  # handing torch the slopes as such would import sympy: 0.3 s
        along = torch.stack([(output * slope).sum() for output, slope in pairs]).sum()
    grads = torch.autograd.grad(along, tuple(params.values()), retain_graph=True, allow_unused=True)
    named = zip(params, grads, strict=True)
    return {name: grad for name, grad in named if grad is not None}


def sum_params(left: Params, right: Params) -> Params:
    """All names of both; where both have one, the sum."""
    return {**left, **{n: left[n] + value if n in left else value for n, value in right.items()}}


def floating_tensors(prepared: Prepared | None) -> tuple[Tensor, ...]:
    """Those tensors of a prepared batch that a derivative may be taken at."""
    every = () if prepared is None else tensors(prepared)
    return tuple(tensor for tensor in every if tensor.is_floating_point())
