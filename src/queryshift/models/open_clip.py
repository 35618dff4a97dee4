"""Models of the open_clip package, by their shape: `encode_image`, `encode_text`, `visual`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

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


class OpenClipSide(BlockEncoder):
    """The image or the text side of a model."""

    def __init__(
        self, model: nn.Module, side: str, read: Callable[[Sequence[Any]], dict[str, Tensor]]
    ) -> None:
        super().__init__()
        self.model, self.side, self.read = model, side, read
        visual = side == "image"
        self.block_list = _blocks(self, visual)
        names = norm_layer_names(self)
        self.norm_names = [name for name in names if name.startswith(VISUAL) == visual]
        self.requires_grad_(False)
        if visual:
            keep_input_layers_precise(model)

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the result of `encode_image` or `encode_text`."""
        return cast(Tensor, getattr(self.model, f"encode_{self.side}")(*prepared.values()))


def wrap(
    model: nn.Module,
    transform: Callable[[Any], Tensor],
    tokenize: Callable[[list[str]], Tensor],
    adapt: LayerChoice | Mapping[str, LayerChoice] = "all",
) -> dict[str, Encoder]:
    """Make image and text encoders from the result of `open_clip.create_model_and_transforms`.

    They share the model, which is frozen and reads pixels in full precision from then on. Move it
    to its device first.
    """
    absent = [name for name in SHAPE if not hasattr(model, name)]
    if absent:
        raise BadInput(
            f"{type(model).__name__} has no {', '.join(absent)}: expected a model of open_clip's "
            "shape. For any other, write an Encoder of your own (docs/your-own-model.md)."
        )

    def pixels(items: Sequence[Any]) -> dict[str, Tensor]:
        return {"pixels": torch.stack([transform(image) for image in images(items)])}

    def tokens(items: Sequence[Any]) -> dict[str, Tensor]:
        return {"tokens": tokenize(texts(items))}  # padded to the limit, or cut

    encoders: dict[str, Encoder] = {
        "image": OpenClipSide(model, "image", pixels).eval(),
        "text": OpenClipSide(model, "text", tokens).eval(),
    }
    adapt_layers(encoders, adapt)
    return encoders


def _blocks(encoder: Encoder, visual: bool) -> str | None:
    """Return the name of the only list of blocks inside or outside the visual tower."""
    lists = [
        name
        for name, _ in encoder.named_modules()
        if name.endswith(("resblocks", "blocks")) and name.startswith(VISUAL) == visual
    ]
    return lists[0] if len(lists) == 1 else None
