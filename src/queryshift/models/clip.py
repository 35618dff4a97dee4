"""CLIP (Radford et al., 2021), and AltCLIP and Chinese-CLIP with their other text towers."""

from __future__ import annotations

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder

from .hf import Checkpoint, Tower, first_token, pooled
from .vision_towers import ClassTokenTower


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load image and text encoders of one checkpoint.

    As published with TCR (ICLR 2025), images are squeezed to a square instead of scaled and
    cropped, and the text tower's final norm layer does not adapt.
    """
    if checkpoint.architecture != "CLIPModel":
        checkpoint.refuse_published()
    model = checkpoint.model
    square = model.config.vision_config.image_size if checkpoint.published else None
    pool_text = first_token if checkpoint.architecture == "ChineseCLIPModel" else pooled
    reader = checkpoint.image_reader(square)
    image = ClassTokenTower(model.vision_model, model.visual_projection, reader, pooled)
    text = Tower(model.text_model, model.text_projection, checkpoint.words(), pool_text)
    if checkpoint.published:
        text.norm_names = norm_layer_names(text, "*final_layer_norm")
    return {"image": image, "text": text}
