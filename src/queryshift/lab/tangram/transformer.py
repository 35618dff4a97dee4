"""Small transformers with LayerNorm from the first layer on: the parts of tangram's towers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from queryshift.models.blocks import keep_full_precision

WIDTH = 128
HEADS = 4
DIMENSIONS = 128
LONGEST_TEXT = 64
PADDING = 0


class Attention(nn.Module):
    """Queries look at keys and values of their own sequence or of another."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Linear(WIDTH, WIDTH)
        self.keys_values = nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, rows: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        """Rows (B, L, W) after looking at the context (B, M, W) where `mask` allows it."""
        keys, values = self.keys_values(context).chunk(2, dim=-1)
        heads = scaled_dot_product_attention(
            _split(self.queries(rows)), _split(keys), _split(values), attn_mask=mask
        )
        mixed: Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return mixed


def _split(rows: Tensor) -> Tensor:
    """(B, L, W) as (B, heads, L, W / heads)."""
    return rows.reshape(*rows.shape[:2], HEADS, -1).transpose(1, 2)


class Block(nn.Module):
    """A pre-norm transformer block, with cross-attention if `crosses`."""

    def __init__(self, crosses: bool = False) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        if crosses:
            self.norm_cross = nn.LayerNorm(WIDTH)
            self.cross = Attention()
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(
        self,
        rows: Tensor,
        mask: Tensor | None = None,
        only: int | None = None,
        other: Tensor | None = None,
    ) -> Tensor:
        """The rows (the first `only` of them), after the block; `other` is looked across to."""
        seen = self.norm_attention(rows)
        rows = rows[:, :only] + self.attention(seen[:, :only], seen, mask)
        if other is not None:
            rows = rows + self.cross(self.norm_cross(rows), other)
        mixed: Tensor = rows + self.mlp(self.norm_mlp(rows))
        return mixed


class Trunk(nn.Module):
    """Blocks and the last norm."""

    def __init__(self, depth: int, crosses: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(crosses) for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH)

    def early(self, rows: Tensor) -> Tensor:
        """All rows as the last block gets them."""
        for block in list(self.blocks)[:-1]:
            rows = block(rows)
        return rows

    def late(self, rows: Tensor, only: int) -> Tensor:
        """The first `only` rows behind the last block, which then computes no others."""
        normed: Tensor = self.norm(self.blocks[-1](rows, None, only))
        return normed

    def forward(
        self,
        rows: Tensor,
        mask: Tensor | None = None,
        only: int | None = None,
        other: Tensor | None = None,
    ) -> Tensor:
        """All rows, or the first `only`, through every block."""
        for block in self.blocks:
            is_last = block is self.blocks[-1]
            rows = block(rows, mask, only if is_last else None, other)
        normed: Tensor = self.norm(rows)
        return normed


class Patches(nn.Module):
    """Square pieces of images (..., H, W, C) as vectors (..., pieces, width)."""

    def __init__(self, side: int, channels: int = 3) -> None:
        super().__init__()
        self.side = side
        self.project = keep_full_precision(nn.Linear(side * side * channels, WIDTH))

    def forward(self, images: Tensor) -> Tensor:
        """The pieces, row by row."""
        *many, height, width, channels = images.shape
        down, across = height // self.side, width // self.side
        grid = images.reshape(*many, down, self.side, across, self.side, channels)
        pieces: Tensor = self.project(
            grid.transpose(-4, -3).reshape(*many, down * across, self.side**2 * channels)
        )
        return pieces


def pixels(images: Tensor) -> Tensor:
    """8-bit values as floats from -1 to 1."""
    return images.float() / 127.5 - 1


def positions(*shape: int) -> nn.Parameter:
    """Learned vectors, one for each place."""
    return nn.Parameter(torch.randn(*shape, WIDTH) * 0.02)
