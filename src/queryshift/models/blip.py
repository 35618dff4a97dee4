"""BLIP (Li et al., 2022) as a dual encoder, from `BlipForImageTextRetrieval`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder
from queryshift.encoders.prepared import Prepared

from .hf import Checkpoint, Tower, first_token
from .image_preprocessing import ImageReader
from .tokenising import Words
from .vision_towers import ClassTokenTower, every_row

PUBLISHED_TOKENS = 35


class BlipImage(ClassTokenTower):
    """BLIP's image side."""

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Unit vectors, and the tokens they were read from."""
        outputs: list[Any] = []
        keep = self.tower.register_forward_hook(lambda *run: outputs.append(run[-1]))
        with keep, every_row(self.blocks):
            vectors = self.finish(shared)
        return vectors, {"tokens": outputs[0].last_hidden_state}


class BlipText(Tower):
    """BLIP's text side. Cross-attention and verdict serve a matcher only, so they stay."""

    recommended: Mapping[str, Mapping[str, float]] = {"*": {"lr": 3e-5}, "infomax": {}}

    def __init__(self, tower: nn.Module, head: nn.Module, words: Words, verdict: nn.Module) -> None:
        super().__init__(tower, head, words, first_token)
        self.words = words
        self.verdict = verdict.requires_grad_(False)
        self.norm_names = norm_layer_names(self, "*crossattention*")

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Unit vectors, and the words: the matcher reads them itself, looking at images."""
        return self.finish(shared), {name: shared[name] for name in ("input_ids", "attention_mask")}


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Image and text encoders of one checkpoint."""
    limit = PUBLISHED_TOKENS if checkpoint.published else 0
    return encoders(checkpoint.model, checkpoint.image_reader(), checkpoint.words(limit=limit))


def encoders(model: Any, reader: ImageReader, words: Words) -> dict[str, Encoder]:
    """The two sides of a `BlipForImageTextRetrieval`, wherever its weights came from."""
    return {
        "image": BlipImage(model.vision_model, model.vision_proj, reader, first_token),
        "text": BlipText(model.text_encoder, model.text_proj, words, model.itm_head),
    }
