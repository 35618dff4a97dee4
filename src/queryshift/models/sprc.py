"""SPRC (Bai et al., ICLR 2024): composed queries on BLIP-2, from the authors' checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile
from queryshift.media.text import pairs
from queryshift.support.optional import need

from .blip2 import SEEN, Blip2Image
from .blip_original import VISION_NAMES, bert_tokenizer, text_config, vision_config
from .blocks import BlockEncoder, copy_on_same_storage, keep_input_layers_precise
from .checkpoints import Checkpoint, Format, renamed
from .image_preprocessing import CLIP, ImageReader, Processor, cropped, padded
from .tokenising import Words

if TYPE_CHECKING:
    from PIL.Image import Image

_TOKENS = 32  # of a caption
_RATIO = 1.25  # a longer image gets black bars
_VISION_HEAD = 88  # features of an attention head
_WORDS = "Qformer.bert.embeddings.word_embeddings.weight"

FORMAT = Format(
    name="SPRC",
    inside="Blip2QformerCirAlignPrompt",
    marks=frozenset({_WORDS, "query_tokens", "text_proj.weight"}),
    unused=(r"Qformer\.cls\..*", r"Qformer\.bert\.embeddings\.position_ids", "prompt_tokens|temp"),
)

_authors_name = renamed(
    *VISION_NAMES,
    ("vision_model.post_layernorm", "ln_vision"),
    ("embeddings.word_embeddings", "Qformer.bert.embeddings.word_embeddings"),
    ("embeddings.position_embeddings", "Qformer.bert.embeddings.position_embeddings"),
    ("qformer.layernorm", "Qformer.bert.embeddings.LayerNorm"),
    ("qformer.encoder", "Qformer.bert.encoder"),
    ("attention.attention.", "attention.self."),
    ("_projection.", "_proj."),
)


class ComposedEncoder(BlockEncoder):
    """Pairs `(image, text)`, an image and how to change it, to one vector each.

    The Q-Former runs twice: on query tokens, words and the image, then on its outputs for the
    query tokens and the words. It adapts; the image encoder below it runs once per batch.
    """

    def __init__(self, model: Any, reader: ImageReader, words: Words) -> None:
        super().__init__()
        self.vision_model, self.qformer = model.vision_model, copy_on_same_storage(model.qformer)
        self.embeddings, self.query_tokens = model.embeddings, model.query_tokens
        self.head = model.text_projection
        self.reader, self.words = reader, words
        self.norm_names = norm_layer_names(self, "vision_model.*")
        self.requires_grad_(False)
        keep_input_layers_precise(self.vision_model)

    def prepare(self, items: Sequence[tuple[Any, str]]) -> dict[str, Tensor]:
        """Return pixels, and tokens with their mask."""
        images, texts = pairs(items)
        return self.reader(images) | self.words(texts)

    def begin(self, prepared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the hidden states of the image encoder, and the tokens."""
        rest = dict(prepared)
        pixels = self._cast({"pixel_values": rest.pop("pixel_values")})
        with self.precision():
            return {SEEN: self.vision_model(**pixels).last_hidden_state, **rest}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the projected class tokens of the second run."""
        count = self.query_tokens.shape[1]
        asked = self.query_tokens.expand(len(prepared[SEEN]), -1, -1)
        seeing = {"query_length": count, "encoder_hidden_states": prepared[SEEN]}
        fused = self._read(asked, prepared, **seeing)[:, :count]
        # With a length of 0 all of them use the feed-forward layers for words, as the authors do.
        return cast(Tensor, self.head(self._read(fused, prepared, query_length=0)[:, count]))

    def _read(self, before: Tensor, tokens: Mapping[str, Tensor], **seeing: Any) -> Tensor:
        """Run the Q-Former on the rows `before`, followed by the words."""
        mask = tokens["attention_mask"]
        output = self.qformer(
            query_embeds=self.embeddings(input_ids=tokens["input_ids"], query_embeds=before),
            attention_mask=torch.cat([mask.new_ones(before.shape[:2]), mask], dim=1),
            **seeing,
        )
        return cast(Tensor, output.last_hidden_state)


def load(path: Path, *, published: bool = False) -> dict[str, Encoder]:
    """Load the encoders "image+text", for queries, and "image", with 32 vectors per candidate.

    Items are always read as the authors do, with or without `published`.
    """
    checkpoint = FORMAT.open(path)
    model = build(checkpoint)
    words = bert_tokenizer(checkpoint, _WORDS, ["[DEC]"])
    framed = partial(_framed, side=model.config.vision_config.image_size)
    reader = ImageReader(Processor(framed, CLIP))
    # The authors keep 50 words instead of BLIP's 30, but at most 30 tokens of them are read.
    composed = ComposedEncoder(model, reader, Words(words, limit=_TOKENS, cleaned=True))
    return {"image+text": composed, "image": Blip2Image(model, reader)}


def build(checkpoint: Checkpoint) -> Any:
    """Build a `Blip2ForImageTextRetrieval` from the checkpoint."""
    transformers = need("transformers", "hf", "loading SPRC")
    config = transformers.Blip2Config(
        vision_config=_vision(checkpoint),
        qformer_config=text_config(checkpoint, "Qformer.bert.") | {"use_qformer_text_input": True},
        num_query_tokens=checkpoint.shape("query_tokens")[1],
        image_text_hidden_size=checkpoint.shape("text_proj.weight")[0],
    )
    with torch.device("meta"):
        model = transformers.Blip2ForImageTextRetrieval(config)
    model.vision_model.post_layernorm.eps = 1e-5  # the authors' ln_vision has torch's own
    return _with_joined_biases(checkpoint).fill(model, _authors_name)


def _vision(checkpoint: Checkpoint) -> dict[str, Any]:
    if "visual_encoder.conv1.weight" in checkpoint.weights:
        raise BadFile(
            f"{checkpoint.path} has CLIP's ViT-L as its image encoder: SPRC is read with EVA's "
            "ViT-g alone (sprc_cirr.pt, sprc_fiq.pt)."
        )
    return vision_config(checkpoint, _VISION_HEAD)


def _with_joined_biases(checkpoint: Checkpoint) -> Checkpoint:
    """Join EVA's biases of queries and values to one, with zeros for keys, as Hugging Face has."""
    weights = dict(checkpoint.weights)
    for name in checkpoint.weights:
        block, is_bias, _ = name.partition(".q_bias")
        if is_bias and f"{block}.v_bias" in weights:
            query, value = weights.pop(name), weights.pop(f"{block}.v_bias")
            weights[f"{block}.qkv.bias"] = torch.cat([query, torch.zeros_like(query), value])
    return replace(checkpoint, weights=weights)


def _framed(image: Image, side: int) -> Image:
    """Add black bars to long images, then crop the middle square."""
    return cropped(padded(image, _RATIO), side)
