"""Norm layers whose weights may be overridden: one set for all items, or one for each."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm, layer_norm, rms_norm
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
        normalised: Tensor = plain(wide) if weight.ndim == axes else _for_each_item(norm, wide)
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
        raise CannotAdapt(
            f"{type(norm).__name__} cannot take weights for each item, as LayerNorm, RMSNorm and "
            "GroupNorm can: answer with each session by itself."
        )
    at_end = not isinstance(norm, nn.GroupNorm)  # its channels come right behind the items
    gain = _spread(cast(Tensor, norm.weight), plain, at_end)
    if (bias := getattr(norm, "bias", None)) is None:
        return plain * gain
    return torch.addcmul(_spread(bias, plain, at_end), plain, gain)


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
