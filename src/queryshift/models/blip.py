"""BLIP (Li et al., 2022) as a dual encoder, from `BlipForImageTextRetrieval`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..encoder import Encoder
from .adapting import norm_layers
from .hf import Checkpoint, Tower, first_token
from .reading import Pictures, Words

PUBLISHED_TOKENS = 35


class BlipText(Tower):
    """BLIP's text side. Its cross-attention serves the matching head only, so it stays as it is."""

    recommended: Mapping[str, Mapping[str, float]] = {"*": {"lr": 3e-5}}


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Image and text encoders of one checkpoint."""
    limit = PUBLISHED_TOKENS if checkpoint.published else 0
    return encoders(checkpoint.model, checkpoint.pictures(), checkpoint.words(limit=limit))


def encoders(model: Any, pictures: Pictures, words: Words) -> dict[str, Encoder]:
    """The two sides of a `BlipForImageTextRetrieval`, wherever its weights came from."""
    image = Tower(model.vision_model, model.vision_proj, pictures, first_token)
    text = BlipText(model.text_encoder, model.text_proj, words, first_token)
    text.norm_names = norm_layers(text, "*crossattention*")
    return {"image": image, "text": text}
