"""SigLIP (Zhai et al., 2023) and SigLIP 2 (Tschannen et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from queryshift.encoders.encoder import Encoder

from .hf import Checkpoint, Tower, pooled
from .vision_towers import PatchTower


class NaFlexImage(Tower):
    """SigLIP 2's image side, for patches of images at their own aspect ratio."""

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the pooled output; the mask's name depends on the version of the library."""
        names = ("pixel_values", "pixel_attention_mask", "spatial_shapes")
        return self.pool(self.tower(*(prepared[name] for name in names)))


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load image and text encoders. The text tower reads its last position, so texts are padded to
    the limit without a mask, as in training."""
    checkpoint.refuse_published()
    model = checkpoint.model
    words = checkpoint.words(to_the_limit=True, masked=False)
    image = NaFlexImage if checkpoint.architecture == "Siglip2Model" else PatchTower
    return {
        "image": image(model.vision_model, nn.Identity(), checkpoint.image_reader(), pooled),
        "text": Tower(model.text_model, nn.Identity(), words, pooled),
    }
