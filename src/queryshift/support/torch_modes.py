"""Torch's modes: those that a caller has set must not change answers and updates."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

CAST = ("cpu", "cuda")  # devices with a mode of half precision


@contextmanager
def without_autocast() -> Iterator[None]:
    """Switch autocast off: encoders, search and losses have their own precision."""
    cast = [device for device in CAST if torch.is_autocast_enabled(device)]
    if not cast:  # almost always; costs nothing
        yield
        return
    with ExitStack() as off:
        for device in cast:
            off.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def adaptation_modes() -> Iterator[None]:
    """Switch gradients on, inference mode and autocast off; a service may have set them."""
    with torch.inference_mode(False), torch.enable_grad(), without_autocast():
        yield


def retain_compiled_graphs() -> AbstractContextManager[Any]:
    """Allow several backward passes through compiled code; use it around forward and backward."""
    config = sys.modules.get("torch._functorch.config")  # exists once something is compiled
    patch = getattr(config, "patch", None)  # not yet while another thread imports it
    context: AbstractContextManager[Any]
    context = nullcontext() if patch is None else patch(donated_buffer=False)
    return context


def without_inference_mode(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy if it was made in inference mode and cannot join a graph."""
    if not tensor.is_inference():
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()
