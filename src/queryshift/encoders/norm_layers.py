"""Norm layers whose weights may be overridden: one set for all items, or one for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, group_norm, layer_norm, rms_norm
from torch.nn.modules.batchnorm import _BatchNorm

from queryshift.errors import CannotAdapt
from queryshift.support.priority import this_thread, yield_to_answers

_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _BatchNorm)


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm layer with weights of its own."""
    named_so = type(module).__name__.lower().endswith(("layernorm", "rmsnorm"))
    return (isinstance(module, _NORMS) or named_so) and module._parameters.get("weight") is not None


def sees_the_batch(module: nn.Module) -> bool:
    """Whether a module normalises by what else is in the batch: BatchNorm without statistics."""
    return isinstance(module, _BatchNorm) and module.running_mean is None


def accept_override(norm: nn.Module) -> None:
    """Let a norm layer work with weights that override its own, in their precision."""
    source = cast(Tensor, norm.weight)
    if source.dtype in (torch.float16, torch.bfloat16):
        norm.float()  # its running statistics too
    plain, axes = norm.forward, source.ndim

    def forward(values: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and this_thread.wait_left > 0:
            yield_to_answers()  # every tower that adapts passes here often
        weight = cast(Tensor, norm.weight)
        wide = values.to(weight.dtype)
        if weight.ndim == axes:
            normalised: Tensor = plain(wide)
        elif isinstance(norm, _NORMS):
            normalised = _for_each_item(norm, wide)
        else:
            normalised = _of_another_class(norm, plain, wide)
        return normalised.to(values.dtype)

    norm.forward = forward


def _for_each_item(norm: nn.Module, values: Tensor) -> Tensor:
    """Normalised values (n, ...) under weights (B, ...), where n is a multiple of B."""
    if isinstance(norm, nn.LayerNorm):
        plain = layer_norm(values, norm.normalized_shape, eps=norm.eps)
    elif isinstance(norm, nn.RMSNorm):
        plain = rms_norm(values, norm.normalized_shape, eps=norm.eps)
    elif isinstance(norm, nn.GroupNorm):
        plain = group_norm(values, norm.num_groups, eps=norm.eps)
    else:
        mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        plain = batch_norm(values, mean, variance, eps=cast(float, norm.eps))
    at_end = isinstance(norm, (nn.LayerNorm, nn.RMSNorm))  # others have channels behind the items
    gain = _spread(cast(Tensor, norm.weight), plain, at_end)
    if (bias := getattr(norm, "bias", None)) is None:
        return plain * gain
    return torch.addcmul(_spread(bias, plain, at_end), plain, gain)


def _of_another_class(norm: nn.Module, plain: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The same for a norm layer whose inside is not known, but affine in its weights."""
    own = cast("dict[str, Tensor | None]", norm._parameters)
    weights = {name: one for name, one in own.items() if one is not None}

    def at(unit: str | None) -> Tensor:
        for name, one in weights.items():
            own[name] = torch.full_like(one[0], float(name == unit))
        return plain(values)

    try:
        base = total = at(None)
        for name, one in weights.items():
            total = torch.addcmul(total, at(name) - base, _spread(one, values, at_end=True))
    finally:
        own.update(weights)
    return total


def _spread(weights: Tensor, values: Tensor, at_end: bool) -> Tensor:
    """Weights (B, ...) in a shape that multiplies values (n, ...), n // B rows for each item."""
    times, left = divmod(len(values), len(weights))
    if left or times == 0 or values.ndim < weights.ndim:
        raise CannotAdapt(
            f"a norm layer sees values of shape {tuple(values.shape)} for {len(weights)} items: "
            "the items must be the first axis. Answer with each session by itself."
        )
    between = (1,) * (values.ndim - weights.ndim)
    shape = (*between, *weights.shape[1:]) if at_end else (*weights.shape[1:], *between)
    return weights.repeat_interleave(times, dim=0).view(len(values), *shape)
