"""BLIP-2 (Li et al., 2023), first stage: many vectors per image, one per text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder

from .blocks import BlockEncoder, copy_on_same_storage, keep_input_layers_precise
from .hf import Checkpoint, blocks_of
from .image_preprocessing import ImageReader
from .tokenising import Words

SEEN = "seen"  # key of the image encoder's hidden states


class Blip2Image(BlockEncoder):
    """Images to one vector per query token, (B, 32, D); the best of them counts.

    Only the Q-Former adapts. The image encoder below it, which is far larger, runs once per batch.
    """

    def __init__(self, model: Any, reader: ImageReader) -> None:
        super().__init__()
        self.vision_model, self.qformer = model.vision_model, model.qformer
        self.query_tokens, self.head = model.query_tokens, model.vision_projection
        self.read = reader
        self.block_list = blocks_of(self.qformer, "qformer")
        self.norm_names = norm_layer_names(self, "vision_model.*", "*[0-9].output.LayerNorm")
        self.requires_grad_(False)
        keep_input_layers_precise(self.vision_model)

    def begin(self, prepared: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the hidden states of the image encoder."""
        with self.precision():
            return {SEEN: self.vision_model(**self._cast(prepared)).last_hidden_state}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the projected query tokens."""
        seen = prepared[SEEN]
        tokens = self.query_tokens.expand(len(seen), -1, -1)
        everywhere = torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device)
        output = self.qformer(
            query_embeds=tokens, encoder_hidden_states=seen, encoder_attention_mask=everywhere
        )
        return cast(Tensor, self.head(output.last_hidden_state))


class Blip2Text(BlockEncoder):
    """Texts to one vector each, by the Q-Former's text path."""

    def __init__(self, model: Any, words: Words) -> None:
        super().__init__()
        self.embeddings, self.qformer = model.embeddings, copy_on_same_storage(model.qformer)
        self.head, self.read = model.text_projection, words
        self.block_list = blocks_of(self.qformer, "qformer")
        self.norm_names = norm_layer_names(self, "*crossattention*", "*output_query*")
        self.requires_grad_(False)

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the projected class token."""
        output = self.qformer(
            query_embeds=self.embeddings(input_ids=prepared["input_ids"]),
            query_length=0,
            attention_mask=prepared["attention_mask"],
        )
        return cast(Tensor, self.head(output.last_hidden_state[:, 0]))


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load image and text encoders of one checkpoint, on the same Q-Former."""
    checkpoint.refuse_published()
    model = checkpoint.model
    return {
        "image": Blip2Image(model, checkpoint.image_reader()),
        "text": Blip2Text(model, checkpoint.words()),
    }
