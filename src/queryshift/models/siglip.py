"""SigLIP (Zhai et al., 2023) and SigLIP 2 (Tschannen et al., 2025)."""

from __future__ import annotations

from torch import nn

from ..encoder import Encoder
from .hf import Checkpoint, Tower, pooled


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Image and text encoders; the text tower reads its last position, so all of them are filled,
    and none is masked: it was trained so."""
    checkpoint.refuse_published()
    model = checkpoint.model
    words = checkpoint.words(to_the_limit=True, masked=False)
    return {
        "image": Tower(model.vision_model, nn.Identity(), checkpoint.pictures(), pooled),
        "text": Tower(model.text_model, nn.Identity(), words, pooled),
    }
