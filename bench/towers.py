"""What the benchmarks adapt: the bundled image tower, and towers of full size, random weights."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift import Encoder, Gallery, load
from queryshift.models import blip, clip
from queryshift.models.blocks import BlockEncoder
from queryshift.models.hf import first_token, pooled

TOWERS = ("tangram", "vit", "blip", "blip-text")
"""tangram's image tower; CLIP's ViT-B/16; BLIP's two towers (the image's is a ViT-B/16 too)."""

DIMENSIONS = 256
TOKENS, VOCABULARY = 35, 30_524  # of BLIP's published evaluation
SIZES = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
NOISE = 0.3  # over the colour of a picture, whose standard deviation is 1
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Size:
    """How large a tower with random weights is."""

    side: int = 224
    depth: int = 12


def add_options(
    parser: argparse.ArgumentParser, tower: str | None = "tangram", side: int = 224
) -> None:
    """What to adapt (unless there is no choice), where, and how it computes."""
    add_size(parser, side)
    if tower is not None:
        parser.add_argument("--tower", default=tower, choices=TOWERS)
    parser.add_argument("--precision", default="auto", choices=PRECISIONS, help="auto: as `load`")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--graphs", action="store_true", help="CUDA graphs of repeated forwards")


def add_size(parser: argparse.ArgumentParser, side: int) -> None:
    """Where to compute, and how large towers with random weights are."""
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--side", type=int, default=side, help="pixels of a picture's side")
    parser.add_argument("--depth", type=int, default=12, help="blocks of a tower, tangram's aside")


def encoder_for(asked: argparse.Namespace) -> Encoder:
    """The library's encoder, with the precision and compilation that were asked for."""
    encoder = _encoder(asked.tower, Size(asked.side, asked.depth)).eval().to(asked.device)
    assert isinstance(encoder, BlockEncoder)
    encoder.autocast, encoder.compiled = half(asked), asked.compile
    encoder.cuda_graphs = asked.graphs
    return encoder


def half(asked: argparse.Namespace) -> torch.dtype | None:
    """Half precision where it was asked for, or is what `load` takes."""
    auto = "bfloat16" if asked.device == "cuda" else "float32"
    found = auto if asked.precision == "auto" else asked.precision
    return torch.bfloat16 if found == "bfloat16" else None


def twin_for(asked: argparse.Namespace) -> nn.Module:
    """The same weights as their users call them: prepared tensors in, unit vectors out."""
    size = Size(asked.side, asked.depth)
    if asked.tower == "tangram":
        return _encoder("tangram", size).to(asked.device)
    return Plainly(*_parts(asked.tower, size)).eval().to(asked.device)


def batch_for(
    asked: argparse.Namespace, count: int, seed: int = 0, home: str | None = None
) -> list[Any]:
    """Queries; those of full-size towers lie at `home`, by default on the device.

    Each picture is noise over a colour of its own: of noise alone a random tower gives nearly one
    vector, and a guard lets queries without spread teach nothing.
    """
    home = home or asked.device
    draw = torch.Generator().manual_seed(seed)
    if asked.tower == "tangram":
        from queryshift.lab.datasets.tangram import tangram

        return list(tangram("image", count=count * (seed + 1)).queries)[-count:]
    if asked.tower == "blip-text":
        ids = torch.randint(1000, VOCABULARY, (count, TOKENS), generator=draw)
        return list(ids.to(home))
    colours = torch.randn(count, 3, 1, 1, generator=draw)
    noise = NOISE * torch.randn(count, 3, asked.side, asked.side, generator=draw)
    return list((colours + noise).to(home))


def gallery_for(asked: argparse.Namespace, candidates: int) -> Gallery:
    """Random candidates, their centroids known."""
    draw = torch.Generator().manual_seed(0)
    dimensions = 128 if asked.tower == "tangram" else DIMENSIONS
    vectors = torch.randn(candidates, dimensions, generator=draw)
    gallery = Gallery.from_vectors(range(candidates), vectors).to(asked.device)
    gallery.centroids(10)
    return gallery


@dataclass(frozen=True)
class RandomCheckpoint:
    """What the library loads a model from, where there are no files."""

    architecture: str
    model: Any
    published: bool = False

    def image_reader(self, *_: Any) -> Callable[..., dict[str, Tensor]]:
        return lambda items: {"pixel_values": torch.stack(list(items))}

    def words(self, **_: Any) -> Callable[..., dict[str, Tensor]]:
        return _read_ids


class Plainly(nn.Module):
    """A tower of transformers with its projection, and nothing of this library."""

    def __init__(self, tower: nn.Module, head: nn.Module, pool: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.tower, self.head, self.pool = tower, head, pool

    def forward(self, prepared: dict[str, Tensor]) -> Tensor:
        vectors = self.head(self.pool(self.tower(**prepared)))
        return normalize(vectors.float(), dim=1)


def _encoder(name: str, size: Size) -> Encoder:
    if name == "tangram":
        return load("tangram")["image"]
    if name == "vit":
        return clip.load(RandomCheckpoint("CLIPModel", _clip(size)))["image"]
    sides = blip.load(RandomCheckpoint("BlipForImageTextRetrieval", _blip(size)))
    return sides["text" if name == "blip-text" else "image"]


def _parts(name: str, size: Size) -> tuple[nn.Module, nn.Module, Callable[[Any], Tensor]]:
    """Tower, projection and pooling."""
    if name == "vit":
        model = _clip(size)
        return model.vision_model, model.visual_projection, pooled
    model = _blip(size)
    if name == "blip":
        return model.vision_model, model.vision_proj, first_token
    return model.text_encoder, model.text_proj, first_token


def _clip(size: Size) -> Any:
    from transformers import CLIPConfig, CLIPModel

    shape = {**SIZES, "num_hidden_layers": size.depth}
    config = CLIPConfig(
        projection_dim=DIMENSIONS,
        vision_config={**shape, "image_size": size.side, "patch_size": 16},
        text_config={"num_hidden_layers": 1},  # not used
    )
    return _seeded(lambda: CLIPModel(config))


def _blip(size: Size) -> Any:
    from transformers import BlipConfig, BlipForImageTextRetrieval

    shape = {**SIZES, "num_hidden_layers": size.depth, "initializer_range": 0.02}
    config = BlipConfig(
        image_text_hidden_size=DIMENSIONS,
        vision_config={**shape, "image_size": size.side, "patch_size": 16},
        text_config={**shape, "vocab_size": VOCABULARY, "encoder_hidden_size": 768},
    )
    return _seeded(lambda: BlipForImageTextRetrieval(config))


def _seeded(make: Callable[[], Any]) -> Any:
    """A model in eval mode whose random weights are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().eval()


def _read_ids(items: Sequence[Tensor]) -> dict[str, Tensor]:
    ids = torch.stack(list(items))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
