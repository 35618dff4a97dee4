"""Tangram's towers: image, text, video, audio, a composed query, and the matching head."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from .transformer import DIMENSIONS, LONGEST_TEXT, PADDING, WIDTH, Patches, Trunk, pixels, positions

SIDE, PATCH = 64, 8
FRAMES, FRAME_PATCH = 10, 16
RATE, WINDOW, HOP = 16_000, 512, 256  # of audio, in samples
MEL_FRAMES, MEL_BINS, MEL_PATCH = 80, 64, 8
AUDIO_LENGTH = MEL_FRAMES * HOP
_MEL_MEAN, _MEL_SPREAD = -1.6, 4.7  # of clean clips


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
