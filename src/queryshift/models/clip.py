"""CLIP (Radford et al., 2021), and AltCLIP and Chinese-CLIP with their other text towers."""

from __future__ import annotations

from ..encoder import Encoder
from .adapting import norm_layers
from .hf import Checkpoint, Tower, first_token, pooled

PUBLISHED_SIDE = 224  # pictures squeezed to this, not cropped, in TCR's code


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Image and text encoders of one checkpoint."""
    model = checkpoint.model
    square = PUBLISHED_SIDE if checkpoint.published else None
    pool_text = first_token if checkpoint.architecture == "ChineseCLIPModel" else pooled
    image = Tower(model.vision_model, model.visual_projection, checkpoint.pictures(square), pooled)
    text = Tower(model.text_model, model.text_projection, checkpoint.words(), pool_text)
    if checkpoint.published:  # TCR takes the norm layers of the blocks alone
        text.norm_names = norm_layers(text, "*final_layer_norm")
    return {"image": image, "text": text}
