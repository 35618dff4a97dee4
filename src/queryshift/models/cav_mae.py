"""CAV-MAE (Gong et al., ICLR 2023): audio and video, from the authors' own checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize, scaled_dot_product_attention

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.media.audio import waveform
from queryshift.media.item_reading import read_each
from queryshift.media.videos import clips

from .blocks import BlockEncoder, keep_full_precision
from .checkpoints import Checkpoint, Format
from .image_preprocessing import IMAGENET, cropped, stacked

_CLIP_FRAMES = 10
PUBLISHED_FRAME = 5
_PATCH, _HEAD = 16, 64  # side of a patch in pixels, features of an attention head
_MEAN, _SPREAD = np.float32(-5.081), np.float32(4.4849)  # of AudioSet's filter banks
FORMAT = Format(
    name="CAV-MAE",
    marks=frozenset({"patch_embed_a.proj.weight", "patch_embed_v.proj.weight", "modality_a"}),
    prefix="module.",
    unused=(
        r"blocks_[av]\.\d+\.norm[12]_[av]\..*",  # a block has norm layers for audio, for video
        r"blocks_u\.\d+\.norm[12]\..*",  # and for both; these belong to unused paths
        r"norm\..*",
        r"decoder_.*",
        r"mask_token",
        r"mlp_head\..*",
    ),
)
RATE = 16_000
BINS = 128
_WINDOW, _SHIFT, _TRANSFORM = 400, 160, 512  # 25 ms, 10 ms, the next power of two
_LOWEST, _EMPHASIS, _FLOOR = 20.0, 0.97, float(np.finfo(np.float32).eps)
Floats = NDArray[np.floating[Any]]


class _TowerEncoder(BlockEncoder):
    """Base class of both modalities; patches are embedded once per batch."""

    block_list = "tower.blocks"

    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.tower = tower

    def begin(self, prepared: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Embed the patches."""
        (values,) = prepared.values()
        return {"rows": self.tower.look(values)}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return vectors (B, D), or one for each frame (B, frames, D)."""
        return self.tower.read(prepared["rows"])


class AudioEncoder(_TowerEncoder):
    """Mono waveforms: arrays at 16 kHz, or objects with `samples` and `rate`."""

    def prepare(self, items: Sequence[Any]) -> Mapping[str, Tensor]:
        """Return normalised filter banks (B, 1, 128, 1024)."""
        length = self.tower.pos_embed.shape[1] * _PATCH**2 // BINS
        banks = np.stack(read_each(items, lambda item: filter_bank(item, length).T))
        return {"bank": torch.from_numpy(banks)[:, None]}


class VideoEncoder(_TowerEncoder):
    """Clips: arrays (frames, height, width, 3) or lists of images, from which ten are taken.

    `taken` are the numbers of those that are used; their vectors are averaged.
    """

    def __init__(self, tower: Tower, taken: Sequence[int]) -> None:
        super().__init__(tower)
        self.taken = taken

    def prepare(self, items: Sequence[Any]) -> Mapping[str, Tensor]:
        """Return the frames that are used, (B, frames, 3, 224, 224)."""
        side = _PATCH * round(self.tower.pos_embed.shape[1] ** 0.5)
        squares = [[cropped(frame, side) for frame in clip] for clip in clips(items, self._look)]
        return {"frames": torch.stack([stacked(clip, IMAGENET) for clip in squares])}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return vectors (B, D)."""
        return normalize(super().embed(prepared), dim=-1).mean(1)

    def _look(self, clip: Any) -> list[Any]:
        """Return the frames to use, of ten at equal distances, as the authors take them."""
        return [clip[index * len(clip) // _CLIP_FRAMES] for index in self.taken]


def load(path: Path, *, published: bool = False) -> dict[str, Encoder]:
    """Load the encoders "audio" and "video" of a checkpoint, pre-trained or fine-tuned.

    `published` uses one frame of a clip, as the published script does.
    """
    towers = build(FORMAT.open(path))
    taken = [PUBLISHED_FRAME] if published else range(_CLIP_FRAMES)
    return {"audio": AudioEncoder(towers["audio"]), "video": VideoEncoder(towers["video"], taken)}


def build(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Build the towers "audio" and "video" of a checkpoint; they share memory of shared blocks."""
    own, shared = checkpoint.depth("blocks_a."), checkpoint.depth("blocks_u.")
    shapes = {"audio": checkpoint.shape("pos_embed_a"), "video": checkpoint.shape("pos_embed_v")}
    with torch.device("meta"):
        audio = Tower(1, own + shared, shapes["audio"])
        video = Tower(3, own + shared, shapes["video"])
    towers = {"audio": audio, "video": video}
    checkpoint.fill(nn.ModuleDict(towers), _authors_names(own))
    return towers


def filter_bank(item: Any, length: int) -> NDArray[np.float32]:
    """Return normalised log energies (length, 128) of a waveform, which is cut or padded."""
    energies = log_mel(waveform(item, RATE))[:length]
    padded = np.pad(energies, ((0, length - len(energies)), (0, 0)))
    return (padded - _MEAN) / _SPREAD


def _authors_names(own: int) -> Callable[[str], str]:
    """Return a function from our names to the authors', who number shared blocks from 0."""

    def authors_name(name: str) -> str:
        tower, part, *rest = name.split(".")
        side = tower[0]  # a or v
        if part != "blocks":
            return ".".join([f"{part}_{side}", *rest])
        number, layer, *rest = rest
        if int(number) < own:
            return ".".join([f"blocks_{side}", number, layer, *rest])
        of_side = f"{layer}_{side}" if layer.startswith("norm") else layer
        return ".".join(["blocks_u", str(int(number) - own), of_side, *rest])

    return authors_name


class Tower(nn.Module):
    """The tower of one modality: patches, its own blocks, shared blocks, mean over patches."""

    def __init__(self, channels: int, depth: int, places: tuple[int, ...]) -> None:
        super().__init__()
        width = places[-1]
        self.patch_embed = _Patches(channels, width)
        self.pos_embed = nn.Parameter(torch.zeros(places))
        self.modality = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(_Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def look(self, values: Tensor) -> Tensor:
        """Embed images (..., channels, height, width) as patches (..., T, D)."""
        rows: Tensor = self.patch_embed(values)
        return rows + (self.pos_embed + self.modality)

    def read(self, rows: Tensor) -> Tensor:
        """Compute vectors (..., D) from patches."""
        for block in self.blocks:
            rows = block(rows)
        return cast(Tensor, self.norm(rows).mean(-2))


class _Patches(nn.Module):
    """Embeds squares of pixels as rows."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.proj = keep_full_precision(
            nn.Conv2d(channels, width, kernel_size=_PATCH, stride=_PATCH)
        )

    def forward(self, values: Tensor) -> Tensor:
        squares: Tensor = self.proj(values.reshape(-1, *values.shape[-3:]))
        rows = squares.flatten(2).transpose(1, 2)
        return rows.reshape(*values.shape[:-3], *rows.shape[1:])


class _Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = _Attention(width)
        self.norm2 = nn.LayerNorm(width)
        wide, back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(OrderedDict(fc1=wide, act=nn.GELU(), fc2=back))

    def forward(self, rows: Tensor) -> Tensor:
        rows = rows + self.attn(self.norm1(rows))
        return cast(Tensor, rows + self.mlp(self.norm2(rows)))


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        parts = self.qkv(rows).unflatten(-1, (3, -1, _HEAD)).movedim(-3, 0).transpose(-2, -3)
        mixed = scaled_dot_product_attention(*parts).transpose(-2, -3).flatten(-2)
        return cast(Tensor, self.proj(mixed))


def log_mel(samples: Floats) -> NDArray[np.float32]:
    """Return log energies (frames, 128) of a mono waveform at 16 kHz, a frame every 10 ms."""
    if len(samples) < _WINDOW:
        raise BadInput(
            f"a waveform of {len(samples)} samples is shorter than one window of {_WINDOW} "
            "(25 ms at 16 kHz)."
        )
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), _WINDOW)
    frames = windows[::_SHIFT] - windows[::_SHIFT].mean(1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    shaped = (frames - _EMPHASIS * before) * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(shaped, _TRANSFORM)) ** 2
    return np.log(np.maximum(power @ _triangles(), _FLOOR)).astype(np.float32)


@cache
def _triangles() -> Floats:
    """Return weights (257, 128): triangles on the mel scale, as in Kaldi."""
    lowest, highest = _mel(np.array([_LOWEST, RATE / 2]))
    edges = np.linspace(lowest, highest, BINS + 2)
    tones = _mel(np.arange(_TRANSFORM // 2 + 1) * (RATE / _TRANSFORM))[:, None]
    rising = (tones - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - tones) / (edges[2:] - edges[1:-1])
    return cast(Floats, np.maximum(np.minimum(rising, falling), 0.0))


def _mel(hertz: Floats) -> Floats:
    return cast(Floats, 1127.0 * np.log(1.0 + hertz / 700.0))
