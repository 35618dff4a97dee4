"""BLIP (Li et al., 2022) from the authors' `.pth` files, with Hugging Face's classes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import interpolate

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.support.optional import need

from . import blip
from .checkpoints import Checkpoint, Format, renamed
from .image_preprocessing import CLIP, ImageReader, Processor, squeezed
from .tokenising import Words

USUAL = "bert-base-uncased"
_FILES = ("vocab.txt", "tokenizer.json")
_ADVICE = f'Go online once to fetch "{USUAL}", or put its vocab.txt beside the checkpoint.'
PUBLISHED_SIDE = 384
_HEAD = 64  # features of an attention head, in every published size
_WORDS = "text_encoder.embeddings.word_embeddings.weight"
_PLACES = "visual_encoder.pos_embed"

FORMAT = Format(
    name="BLIP",
    inside="model",
    marks=frozenset({_WORDS, _PLACES, "vision_proj.weight", "text_proj.weight"}),
    unused=(
        r"(visual_encoder|text_encoder|vision_proj|text_proj)_m\..*",  # momentum copies
        r"(image|text|idx|ptr)_queue|queue_ptr|temp",
        r"text_decoder\..*",
        r"text_encoder\.embeddings\.position_ids",
    ),
)

VISION_NAMES = (
    ("vision_model.embeddings.class_embedding", "visual_encoder.cls_token"),
    ("vision_model.embeddings.position_embedding", _PLACES),
    ("vision_model.embeddings.patch_embedding", "visual_encoder.patch_embed.proj"),
    ("vision_model.encoder.layers", "visual_encoder.blocks"),
    (".self_attn.projection", ".attn.proj"),
    (".self_attn.", ".attn."),
    (".layer_norm", ".norm"),
)
"""Hugging Face's names in a vision transformer, and those of BLIP's and BLIP-2's authors."""

_authors_name = renamed(*VISION_NAMES, ("vision_model.post_layernorm", "visual_encoder.norm"))


def load(path: Path, *, published: bool = False) -> dict[str, Encoder]:
    """Load the encoders "image" and "text" of a checkpoint, base or large.

    `published` reads captions as the published evaluation does, and images in its size of 384
    pixels (pre-trained checkpoints have 224).
    """
    checkpoint = FORMAT.open(path)
    model = build(_resized(checkpoint) if published else checkpoint)
    side, text = model.config.vision_config.image_size, model.config.text_config
    words = Words(
        bert_tokenizer(checkpoint, _WORDS, ["[DEC]", "[ENC]"]),
        limit=blip.PUBLISHED_TOKENS if published else text.max_position_embeddings,
        cleaned=published,
    )
    reader = ImageReader(Processor(partial(squeezed, side=side), CLIP))
    return blip.encoders(model, reader, words)


def build(checkpoint: Checkpoint) -> Any:
    """Build a `BlipForImageTextRetrieval` with its matching head from the checkpoint."""
    transformers = need("transformers", "hf", "loading BLIP")
    config = transformers.BlipConfig(
        vision_config=vision_config(checkpoint, _HEAD)
        | {"layer_norm_eps": 1e-6},  # Hugging Face's own conversions have 1e-5
        text_config=text_config(checkpoint, "text_encoder.")
        | {"encoder_hidden_size": checkpoint.shape(_PLACES)[-1]},
        image_text_hidden_size=checkpoint.shape("vision_proj.weight")[0],
    )
    with torch.device("meta"):
        model = transformers.BlipForImageTextRetrieval(config)
    return checkpoint.fill(model, _authors_name)


def vision_config(checkpoint: Checkpoint, head: int) -> dict[str, Any]:
    """Return the sizes of a vision transformer of BLIP's or BLIP-2's authors."""
    _, places, width = checkpoint.shape(_PLACES)
    patch = checkpoint.shape("visual_encoder.patch_embed.proj.weight")[-1]
    return {
        "hidden_size": width,
        "intermediate_size": checkpoint.shape("visual_encoder.blocks.0.mlp.fc1.weight")[0],
        "num_hidden_layers": checkpoint.depth("visual_encoder.blocks."),
        "num_attention_heads": width // head,
        "image_size": isqrt(places - 1) * patch,
        "patch_size": patch,
    }


def text_config(checkpoint: Checkpoint, prefix: str) -> dict[str, Any]:
    """Return the sizes of a BERT whose weights' names start with `prefix`."""
    words, width = checkpoint.shape(f"{prefix}embeddings.word_embeddings.weight")
    places = checkpoint.shape(f"{prefix}embeddings.position_embeddings.weight")[0]
    layer = f"{prefix}encoder.layer."
    return {
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": checkpoint.shape(f"{layer}0.intermediate.dense.weight")[0],
        "num_hidden_layers": checkpoint.depth(layer),
        "num_attention_heads": width // _HEAD,
        "max_position_embeddings": places,
    }


def bert_tokenizer(checkpoint: Checkpoint, words: str, added: list[str]) -> Any:
    """Load the tokenizer for a checkpoint whose word embeddings are called `words`.

    It comes from files next to the checkpoint, else from the Hugging Face Hub. The number of words
    is checked, because transformers makes up a tokenizer if it finds no files.
    """
    near, rows = checkpoint.path.parent, checkpoint.shape(words)[0]
    beside = any((near / file).is_file() for file in _FILES)
    transformers = need("transformers", "hf", "reading texts as BERT does")
    wanted = str(near if beside else USUAL)
    try:
        found = transformers.BertTokenizerFast.from_pretrained(wanted)
    except (OSError, ValueError) as error:
        raise BadInput(f'no tokenizer "{wanted}" ({error}). {_ADVICE}') from error
    found.add_tokens(added, special_tokens=True)
    if len(found) != rows:
        raise BadInput(
            f'the tokenizer "{wanted}" was not found, or is another\'s: it has {len(found)} '
            f"words, the checkpoint {checkpoint.path} has {rows}. {_ADVICE}"
        )
    return found


def _resized(checkpoint: Checkpoint) -> Checkpoint:
    """Interpolate the positions for images of the published size, as in BLIP's code."""
    patch = checkpoint.shape("visual_encoder.patch_embed.proj.weight")[-1]
    _, places, width = checkpoint.shape(_PLACES)
    old, new = isqrt(places - 1), PUBLISHED_SIDE // patch
    if old == new:
        return checkpoint
    positions = checkpoint.weights[_PLACES].float()
    squares = positions[:, 1:].reshape(1, old, old, width).permute(0, 3, 1, 2)
    larger = interpolate(squares, size=(new, new), mode="bicubic", align_corners=False)
    moved = torch.cat([positions[:, :1], larger.flatten(2).transpose(1, 2)], dim=1)
    return replace(checkpoint, weights=checkpoint.weights | {_PLACES: moved})
