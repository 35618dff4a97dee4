"""The trained model for `--model training.photographs.encoders:make`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn

import queryshift as qs
from queryshift.media.images import images
from queryshift.models.image_preprocessing import squeezed
from training.photographs import quantised_weights
from training.photographs.towers import DIMENSION, SIDE, CaptionTower, PictureTower

FOLDER = "QUERYSHIFT_PHOTOGRAPHS"  # names the folder that holds the files below
HOME = Path("runs") / "photographs"
WEIGHTS, VOCABULARY = "photographs.safetensors", "vocab.txt"
PIECES = 40  # of a caption; Flickr8k's longest has 43
RECOMMENDED = {"*": {"temperature": 0.05, "lr": 1e-3}}  # training ended at 1 / 19.6


class Pictures(qs.Encoder):
    """Pictures, squeezed to a square of 224 pixels."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, tower: PictureTower) -> None:
        super().__init__()
        self.tower = tower

    def prepare(self, items: Sequence[Any]) -> Tensor:
        shown = [np.asarray(squeezed(picture, SIDE)) for picture in images(items)]
        return torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2).contiguous()

    def forward(self, prepared: Tensor) -> Tensor:
        return self.tower(prepared.float())


class Captions(qs.Encoder):
    """Captions, cut after forty pieces."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, tower: CaptionTower, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tower, self.tokenizer = tower, tokenizer

    def prepare(self, items: Sequence[str]) -> Tensor:
        return ids_of(self.tokenizer, items)

    def forward(self, prepared: Tensor) -> Tensor:
        return self.tower(prepared)


def make() -> dict[str, qs.Encoder]:
    """Both encoders, from the folder that QUERYSHIFT_PHOTOGRAPHS names, or runs/photographs."""
    folder = Path(os.environ.get(FOLDER, HOME))
    weights = quantised_weights.read(folder / WEIGHTS)
    seeing, reading = PictureTower(), CaptionTower()
    for name, tower in (("image.", seeing), ("text.", reading)):
        _fill(tower, {k.removeprefix(name): v for k, v in weights.items() if k.startswith(name)})
    return {"image": Pictures(seeing), "text": Captions(reading, tokenizer(folder / VOCABULARY))}


@cache
def tokenizer(vocabulary: Path) -> Tokenizer:
    """BERT's word pieces in lower case, each caption filled up to `PIECES`."""
    pieces = vocabulary.read_text(encoding="utf-8").splitlines()
    places = {piece: place for place, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(places, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, places[name]) for name in ("[SEP]", "[CLS]")]
    made.post_processor = processors.BertProcessing(*ends)
    made.enable_truncation(PIECES)
    made.enable_padding(length=PIECES)
    return made


def ids_of(made: Tokenizer, captions: Sequence[str]) -> Tensor:
    """Ids (B, 40) of the captions' pieces."""
    return torch.tensor([each.ids for each in made.encode_batch(list(captions))])


def _fill(tower: nn.Module, weights: dict[str, Tensor]) -> None:
    tower.load_state_dict(weights)
    tower.eval()
