"""CLAP (Wu et al., 2023): sounds and texts."""

from __future__ import annotations

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder

from .hf import Checkpoint, Tower, pooled
from .reading import Sounds


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Audio and text encoders of one checkpoint."""
    checkpoint.refuse_published()
    model = checkpoint.model
    sounds = Sounds(checkpoint.extractor())
    audio = Tower(model.audio_model, model.audio_projection, sounds, pooled)
    # The batch norm at the input holds each mel band's statistics in decibels: it stays.
    audio.norm_names = norm_layer_names(audio, "*batch_norm", "*fusion_model*")
    text = Tower(model.text_model, model.text_projection, checkpoint.words(), pooled)
    return {"audio": audio, "text": text}
