"""BLIP (Li et al., 2022), a `BlipForImageTextRetrieval`: dual encoder and matching head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from queryshift.encoders.adapted_parameters import norm_layer_names
from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matcher
from queryshift.encoders.prepared import Prepared
from queryshift.errors import BadFile, BadInput

from .hf import Checkpoint, Tower, first_token
from .image_preprocessing import ImageReader
from .tokenising import Words
from .vision_towers import ClassTokenTower, every_row

PUBLISHED_TOKENS = 35
ENC = "[ENC]"  # first token of a text that is matched; an encoded text has [CLS]


class BlipImage(ClassTokenTower):
    """BLIP's image side."""

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Return unit vectors, and the tokens that they were computed from."""
        outputs: list[Any] = []
        keep = self.tower.register_forward_hook(lambda *run: outputs.append(run[-1]))
        with keep, every_row(self.blocks):
            vectors = self.finish(shared)
        return vectors, {"tokens": outputs[0].last_hidden_state}


class BlipText(Tower):
    """BLIP's text side. Only a matcher uses cross-attention and verdict, so they do not adapt."""

    recommended: Mapping[str, Mapping[str, float]] = {"*": {"lr": 3e-5}}

    def __init__(self, tower: nn.Module, head: nn.Module, words: Words, verdict: nn.Module) -> None:
        super().__init__(tower, head, words, first_token)
        self.words = words
        self.verdict = verdict.requires_grad_(False)
        self.norm_names = norm_layer_names(self, "*crossattention*")

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Return unit vectors, and the words, which the matcher reads together with images."""
        return self.finish(shared), {name: shared[name] for name in ("input_ids", "attention_mask")}


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load image and text encoders of one checkpoint."""
    limit = PUBLISHED_TOKENS if checkpoint.published else 0
    return encoders(checkpoint.model, checkpoint.image_reader(), checkpoint.words(limit=limit))


def encoders(model: Any, reader: ImageReader, words: Words) -> dict[str, Encoder]:
    """Return both sides of a `BlipForImageTextRetrieval`."""
    return {
        "image": BlipImage(model.vision_model, model.vision_proj, reader, first_token),
        "text": BlipText(model.text_encoder, model.text_proj, words, model.itm_head),
    }


class _BlipMatcher(Matcher):
    """Base class of both directions: read a text with cross-attention to an image's tokens."""

    def __init__(self, text: BlipText) -> None:
        super().__init__()
        self.text = text
        self.first = _first_token(text)

    def judged(self, tokens: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return logits (n, 2) of n texts; each n / len(tokens) texts in a row share an image."""
        longest = int(mask.sum(dim=1).max())
        ids, mask = ids[:, :longest].clone(), mask[:, :longest]
        ids[:, 0] = self.first
        tower = self.text.tower
        layers: Any = tower.get_submodule("encoder.layer")
        with self.text.precision():
            rows: Tensor = tower.get_submodule("embeddings")(input_ids=ids)
            padding = (1 - mask[:, None, None].to(rows)) * torch.finfo(rows.dtype).min
            for layer in layers:
                rows = layer.attention(rows, attention_mask=padding)[0]
                rows = rows[:, :1] if layer is layers[-1] else rows  # the last needs one row
                rows = layer.feed_forward_chunk(_looked(layer.crossattention, rows, tokens))
            logits: Tensor = self.text.verdict(rows[:, 0])
        return logits


class CaptionMatcher(_BlipMatcher):
    """For image queries and captions; all norm layers of the text side are its own."""

    def __init__(self, model: Mapping[str, Encoder]) -> None:
        super().__init__(_text_side(model))
        self.norm_names = _norms(self)

    def keep(self, items: Sequence[str]) -> Prepared:
        """Return the captions' tokens."""
        return self.text.prepare(items)

    def forward(self, readings: Mapping[str, Tensor], candidates: Mapping[str, Tensor]) -> Tensor:
        """Return logits of each image with its captions."""
        kept = candidates["input_ids"], candidates["attention_mask"]
        return self.judged(readings["tokens"], *kept)


class ImageMatcher(_BlipMatcher):
    """For caption queries and images.

    The text side is the query's encoder, and shares its norm layers; the norm layers behind the
    cross-attention belong to the matcher.
    """

    pairs_at_once = 256  # each with its own image: at 384 pixels 1.8 MB, and as much per layer
    kept_as: ClassVar[torch.dtype] = torch.float16
    """Precision of the images' tokens, which take 0.9 MB each at 384 pixels."""

    def __init__(self, model: Mapping[str, Encoder]) -> None:
        super().__init__(_text_side(model))
        self.image = model["image"]
        self.shared_names = {name: f"text.{name}" for name in self.text.norm_params()}
        self.norm_names = [name for name in _norms(self) if ".crossattention." in name]

    def keep(self, items: Sequence[Any]) -> Prepared:
        """Return the images' tokens, in half precision on the CPU."""
        _, readings = self.image.through_for_matcher({}, self.image.ready(items))
        if not isinstance(readings, Mapping):
            raise BadInput(f"{type(self.image).__name__} gives no tokens to match: take BLIP's.")
        return {"tokens": readings["tokens"].to("cpu", self.kept_as)}

    def forward(self, readings: Mapping[str, Tensor], candidates: Mapping[str, Tensor]) -> Tensor:
        """Return logits of each caption with its images."""
        tokens = candidates["tokens"].to(self.text.dtype)
        ids, mask = readings["input_ids"], readings["attention_mask"]
        each = len(tokens) // len(ids)
        return self.judged(tokens, ids.repeat_interleave(each, 0), mask.repeat_interleave(each, 0))


MATCHERS = {"image": CaptionMatcher, "text": ImageMatcher}
"""Modality of the query to the matcher class."""


def _looked(cross: nn.Module, rows: Tensor, tokens: Tensor) -> Tensor:
    """Apply cross-attention from rows (n, L, W) to images' tokens (m, T, W).

    Texts with the same image are joined into one long text, so the image's keys and values are
    computed once.
    """
    aside = rows.reshape(len(tokens), -1, rows.shape[-1])
    seen: Tensor = cross(aside, encoder_hidden_states=tokens)[0]
    return seen.view_as(rows)


def _text_side(model: Mapping[str, Encoder]) -> BlipText:
    text = model["text"]
    if not isinstance(text, BlipText):
        raise BadInput(f"got a {type(text).__name__} to match with, expected BLIP's text encoder.")
    return text


def _norms(matcher: _BlipMatcher) -> list[str]:
    """Return the norm layers of the text side."""
    return [name for name in norm_layer_names(matcher) if name.startswith("text.")]


def _first_token(text: BlipText) -> int:
    """Return the id of [ENC]: the tokenizer's, else the last word of the checkpoint (30523)."""
    table: Any = text.tower.get_submodule("embeddings.word_embeddings")
    rows, tokenizer = len(table.weight), text.words.tokenizer
    known: int | None = tokenizer.get_vocab().get(ENC)
    if known is None and len(tokenizer) >= rows:
        raise BadFile(
            f"neither the tokenizer nor the checkpoint ({rows} words) has the token {ENC}: use a "
            "checkpoint that was trained to match, such as Salesforce/blip-itm-base-coco."
        )
    return rows - 1 if known is None else known
