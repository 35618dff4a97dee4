"""Models of the open_clip package, by their shape: `encode_image`, `encode_text`, `visual`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from queryshift.encoders.adapted_parameters import LayerChoice, norm_layer_names
from queryshift.encoders.adapted_parameters import adapt as adapt_layers
from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.media.images import images
from queryshift.media.text import texts

from .blocks import BlockEncoder, keep_input_layers_precise

SHAPE = ("encode_image", "encode_text", "visual")
VISUAL = "model.visual."


class OpenClipImage(BlockEncoder):
    """Images, by the transform that came with the model."""

    def __init__(self, model: nn.Module, transform: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.model, self.transform = model, transform
        self.block_list = _blocks(self, visual=True)
        self.norm_names = [name for name in norm_layer_names(self) if name.startswith(VISUAL)]
        self.requires_grad_(False)
        keep_input_layers_precise(model)

    def prepare(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Pixels."""
        return {"pixels": torch.stack([self.transform(image) for image in images(items)])}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """What `encode_image` gives."""
        vectors: Tensor = self.model.encode_image(prepared["pixels"])  # type: ignore[operator]
        return vectors


class OpenClipText(BlockEncoder):
    """Texts, by the tokenizer that came with the model; it pads to the limit, and cuts."""

    def __init__(self, model: nn.Module, tokenize: Callable[[list[str]], Tensor]) -> None:
        super().__init__()
        self.model, self.tokenize = model, tokenize
        self.block_list = _blocks(self, visual=False)
        self.norm_names = norm_layer_names(self, f"{VISUAL}*")
        self.requires_grad_(False)

    def prepare(self, items: Sequence[str]) -> dict[str, Tensor]:
        """Tokens."""
        return {"tokens": self.tokenize(texts(items))}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """What `encode_text` gives."""
        vectors: Tensor = self.model.encode_text(prepared["tokens"])  # type: ignore[operator]
        return vectors


def wrap(
    model: nn.Module,
    transform: Callable[[Any], Tensor],
    tokenize: Callable[[list[str]], Tensor],
    adapt: LayerChoice | Mapping[str, LayerChoice] = "all",
) -> dict[str, Encoder]:
    """Image and text encoders of what `open_clip.create_model_and_transforms` gave.

    They share the model, which is frozen and whose pixels are read in full precision from then on:
    put it on its device first.
    """
    absent = [name for name in SHAPE if not hasattr(model, name)]
    if absent:
        raise BadInput(
            f"{type(model).__name__} has no {', '.join(absent)}: expected a model of open_clip's "
            "shape. For any other, write an Encoder of your own (docs/your-own-model.md)."
        )
    encoders: dict[str, Encoder] = {
        "image": OpenClipImage(model, transform).eval(),
        "text": OpenClipText(model, tokenize).eval(),
    }
    adapt_layers(encoders, adapt)
    return encoders


def _blocks(encoder: Encoder, visual: bool) -> str | None:
    """The one list of residual blocks in the visual tower, or outside it."""
    lists = [
        name
        for name, _ in encoder.named_modules()
        if name.endswith(("resblocks", "blocks")) and name.startswith(VISUAL) == visual
    ]
    return lists[0] if len(lists) == 1 else None
