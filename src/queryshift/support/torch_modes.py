"""Torch's modes: what a caller has switched around us must change no answer and no update."""

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
    """Autocast off: an encoder sees to its own precision, search and losses keep theirs."""
    cast = [device for device in CAST if torch.is_autocast_enabled(device)]
    if not cast:  # as almost always, and then at no cost
        yield
        return
    with ExitStack() as off:
        for device in cast:
            off.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def adaptation_modes() -> Iterator[None]:
    """Gradients on, inference mode and autocast off: a service may be under these as a whole."""
    with torch.inference_mode(False), torch.enable_grad(), without_autocast():
        yield


def retain_compiled_graphs() -> AbstractContextManager[Any]:
    """Let compiled code be differentiated more than once; around its forward and its backward."""
    config = sys.modules.get("torch._functorch.config")  # there once anything is compiled
    patch = getattr(config, "patch", None)  # not yet while another thread imports it
    context: AbstractContextManager[Any]
    context = nullcontext() if patch is None else patch(donated_buffer=False)
    return context


def without_inference_mode(tensor: Tensor) -> Tensor:
    """The tensor itself; a copy of one made under inference mode, which takes part in no graph."""
    if not tensor.is_inference():
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()
