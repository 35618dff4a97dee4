"""Tangram's towers, small transformers with LayerNorm from the first layer on.

They read an image, a text, a video, audio or a composed query; the matching head reads a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from queryshift.models.blocks import keep_full_precision

WIDTH, HEADS, DIMENSIONS = 128, 4, 128
LONGEST_TEXT, PADDING = 64, 0
SIDE, PATCH = 64, 8
FRAMES, FRAME_PATCH = 10, 16
RATE, WINDOW, HOP = 16_000, 512, 256  # of audio, in samples
MEL_FRAMES, MEL_BINS, MEL_PATCH = 80, 64, 8
AUDIO_LENGTH = MEL_FRAMES * HOP
_MEL_MEAN, _MEL_SPREAD = -1.6, 4.7  # of clean clips


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


def _projection() -> nn.Linear:
    return nn.Linear(WIDTH, DIMENSIONS, bias=False)


def _with_class(token: Tensor, rows: Tensor) -> Tensor:
    return torch.cat([token.expand(len(rows), 1, -1).to(rows.dtype), rows], dim=1)


class PatchTower(nn.Module):
    """Looks at patches, which no norm layer changes, and reads on from there."""

    patches: Patches
    read: Callable[..., Tensor]
    """Vectors, from the patches and what comes with them."""

    def look(self, images: Tensor) -> Tensor:
        """The patches of images of 8-bit values, embedded."""
        patches: Tensor = self.patches(pixels(images))
        return patches

    def forward(self, seen: Tensor, *others: Tensor) -> Tensor:
        """Vectors of images and the other inputs."""
        return self.read(self.look(seen), *others)


class ImageTower(PatchTower):
    """A ViT over patches of 8 pixels, read at its class token."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.patches = Patches(PATCH)
        self.places = positions((SIDE // PATCH) ** 2)
        self.token = positions(1, 1)
        self.trunk = Trunk(depth)
        self.projection = _projection()

    def tokens(self, patches: Tensor) -> Tensor:
        """The class token and the patches before the last block, which serves the class alone."""
        return self.trunk.early(_with_class(self.token, patches + self.places))

    def summary(self, tokens: Tensor) -> Tensor:
        """Vectors of images from their tokens."""
        vectors: Tensor = self.projection(self.trunk.late(tokens, only=1)[:, 0])
        return vectors

    def read(self, patches: Tensor) -> Tensor:
        """Vectors of images (B, 64, 64, 3)."""
        return self.summary(self.tokens(patches))


class Words(nn.Module):
    """Vectors of the pieces of sentences; where there are none is padding."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH)
        self.places = positions(LONGEST_TEXT)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (B, L, W), and where attention may look (B, 1, 1, L)."""
        return self.table(ids) + self.places[: ids.shape[1]], (ids != PADDING)[:, None, None]


class TextTower(nn.Module):
    """A pre-norm BERT, read at its class token, which is the first of the pieces."""

    def __init__(self, vocabulary: int, depth: int = 4) -> None:
        super().__init__()
        self.words = Words(vocabulary)
        self.trunk = Trunk(depth)
        self.projection = _projection()

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of sentences, given as the ids of their pieces (B, L)."""
        rows, mask = self.words(ids)
        vectors: Tensor = self.projection(self.trunk(rows, mask, only=1)[:, 0])
        return vectors


class VideoTower(PatchTower):
    """Patches of all frames at once; the mean over them, as CAV-MAE reads it."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.patches = Patches(FRAME_PATCH)
        self.places = positions((SIDE // FRAME_PATCH) ** 2)
        self.times = positions(FRAMES, 1)
        self.trunk = Trunk(depth)
        self.projection = _projection()

    def read(self, patches: Tensor) -> Tensor:
        """Vectors of clips (B, 10, 64, 64, 3)."""
        rows = patches + self.places + self.times
        vectors: Tensor = self.projection(self.trunk(rows.flatten(1, 2)).mean(1))
        return vectors


@cache
def mel_filters() -> Tensor:
    """Triangles evenly spaced in mel, (257, 64)."""
    highest = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, float(highest), MEL_BINS + 2) / 2595) - 1)
    tones = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)[:, None]
    rising = (tones - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - tones) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def log_mel(waveforms: Tensor) -> Tensor:
    """Log-mel spectrograms (B, 80, 64) of (B, 20480) samples at 16 kHz, about standardised."""
    centred = waveforms - waveforms.mean(1, keepdim=True)
    padded = torch.nn.functional.pad(centred, (WINDOW - HOP, 0))
    frames = padded.unfold(1, WINDOW, HOP) * torch.hann_window(WINDOW, device=waveforms.device)
    power = torch.fft.rfft(frames).abs().square()
    mel = power @ mel_filters().to(waveforms.device)
    return (torch.log(mel + 1e-5) - _MEL_MEAN) / _MEL_SPREAD


class AudioTower(PatchTower):
    """Patches of a log-mel spectrogram; the mean over them, as CAV-MAE reads it."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.patches = Patches(MEL_PATCH, channels=1)
        self.places = positions(MEL_FRAMES // MEL_PATCH * (MEL_BINS // MEL_PATCH))
        self.trunk = Trunk(depth)
        self.projection = _projection()

    def look(self, spectrograms: Tensor) -> Tensor:
        """The patches of spectrograms (B, 80, 64), embedded."""
        patches: Tensor = self.patches(spectrograms[..., None])
        return patches

    def read(self, patches: Tensor) -> Tensor:
        """Vectors of audio."""
        vectors: Tensor = self.projection(self.trunk(patches + self.places).mean(1))
        return vectors


class ComposedTower(PatchTower):
    """An image's patches and a sentence's pieces in one sequence, read at a class token."""

    def __init__(self, vocabulary: int, depth: int = 5) -> None:
        super().__init__()
        self.patches = Patches(PATCH)
        self.places = positions((SIDE // PATCH) ** 2)
        self.words = Words(vocabulary)
        self.token = positions(1, 1)
        self.trunk = Trunk(depth)
        self.projection = _projection()

    def read(self, patches: Tensor, ids: Tensor) -> Tensor:
        """One vector for each image with its sentence."""
        seen = patches + self.places
        read, mask = self.words(ids)
        rows = _with_class(self.token, torch.cat([seen, read.to(seen.dtype)], dim=1))
        everywhere = mask.new_ones(*mask.shape[:3], 1 + seen.shape[1])
        vectors: Tensor = self.projection(
            self.trunk(rows, torch.cat([everywhere, mask], dim=-1), only=1)[:, 0]
        )
        return vectors


class MatchingHead(nn.Module):
    """Reads a sentence while looking at an image's tokens: do they match? As BLIP's head."""

    def __init__(self, vocabulary: int, depth: int = 4) -> None:
        super().__init__()
        self.words = Words(vocabulary)
        self.norm_tokens = nn.LayerNorm(WIDTH)
        self.trunk = Trunk(depth, crosses=True)
        self.verdict = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor, ids: Tensor) -> Tensor:
        """Logits (B, 2) of no and yes, for image tokens and sentences pair by pair."""
        rows, mask = self.words(ids)
        seen = self.norm_tokens(tokens)
        logits: Tensor = self.verdict(self.trunk(rows, mask, only=1, other=seen)[:, 0])
        return logits
