"""Layers that read pixels or energies, in the precision of their weights whatever the mode.

Half precision would round what they read: a pixel by up to a quarter of an 8-bit level, and alike
in all of an even area. A tower may take such a false contour for something in the image.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from torch import Tensor, nn

from queryshift.support.torch_modes import without_autocast

Layer = TypeVar("Layer", bound=nn.Module)
_CHANNELS = 4  # at most, of what no other layer has made
_PATCHES = "patch_embedding"  # called so too where images come cut in patches


class FullPrecision:
    """The forward of a layer that reads raw values.

    An object rather than a closure, so that copying an encoder points it at the copy's layer.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def __call__(self, values: Tensor) -> Tensor:
        """What the layer's class makes of them."""
        layer = self.layer
        with without_autocast():
            return cast(Tensor, type(layer).forward(layer, values.to(layer.weight.dtype)))


def keep_full_precision(layer: Layer) -> Layer:
    """The layer, which from now on computes in full precision."""
    layer.forward = FullPrecision(layer)
    return layer


def keep_input_layers_precise(tower: nn.Module) -> None:
    """The same for all layers of another library's tower that read raw values."""
    for name, part in tower.named_modules():
        narrow = isinstance(part, nn.Conv2d) and part.in_channels <= _CHANNELS
        if narrow or name.endswith(_PATCHES):
            keep_full_precision(part)
