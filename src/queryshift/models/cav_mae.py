"""CAV-MAE (Gong et al., ICLR 2023): audio and video, from the authors' own checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention

from queryshift.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.models.checkpoints import Checkpoint, Format
from queryshift.models.filterbank import BINS, RATE, Floats, log_mel, resample
from queryshift.models.pictures import IMAGENET, cropped, picture, stacked

Frames = Literal["mean"] | int
_CLIP_FRAMES = 10
_HEAD = 64  # features of one attention head, in every published size
_SILENCE_MEAN, _SPREAD = -5.081, 4.4849  # of AudioSet's filter banks

FORMAT = Format(
    name="CAV-MAE",
    marks=frozenset({"patch_embed_a.proj.weight", "patch_embed_v.proj.weight", "modality_a"}),
    prefix="module.",
    unused=(r"decoder_.*", "mask_token", r"mlp_head\..*"),
)


class CavMae(nn.Module):
    """The encoder under its authors' names: two branches, then blocks that both go through."""

    def __init__(self, width: int, depth: int, shared: int, patches: tuple[int, int]) -> None:
        super().__init__()
        self.patch_embed_a = _Patches(1, width)
        self.patch_embed_v = _Patches(3, width)
        self.modality_a = nn.Parameter(torch.zeros(1, 1, width))
        self.modality_v = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed_a = nn.Parameter(torch.zeros(1, patches[0], width))
        self.pos_embed_v = nn.Parameter(torch.zeros(1, patches[1], width))
        self.blocks_a = nn.ModuleList(_Block(width) for _ in range(depth))
        self.blocks_v = nn.ModuleList(_Block(width) for _ in range(depth))
        self.blocks_u = nn.ModuleList(_Block(width) for _ in range(shared))
        self.norm_a = nn.LayerNorm(width)
        self.norm_v = nn.LayerNorm(width)
        self.norm = nn.LayerNorm(width)

    def audio(self, banks: Tensor) -> Tensor:
        """Unit vectors of filter banks (B, frames, 128)."""
        rows = self.patch_embed_a(banks[:, None].transpose(2, 3))
        rows = rows + self.pos_embed_a + self.modality_a
        for block in self.blocks_a:
            rows = block(rows, "")
        for block in self.blocks_u:
            rows = block(rows, "_a")
        return normalize(self.norm_a(rows).mean(1), dim=-1)

    def video(self, pixels: Tensor) -> Tensor:
        """Unit vectors of pictures (B, 3, height, width)."""
        rows = self.patch_embed_v(pixels) + self.pos_embed_v + self.modality_v
        for block in self.blocks_v:
            rows = block(rows, "")
        for block in self.blocks_u:
            rows = block(rows, "_v")
        return normalize(self.norm_v(rows).mean(1), dim=-1)

    def norms(self, side: Literal["a", "v"]) -> list[str]:
        """Names of the norm layers that one modality's vectors pass through."""
        branch = [f"blocks_{side}.{index}.norm" for index in range(len(self.blocks_a))]
        both = [f"blocks_u.{index}.norm" for index in range(len(self.blocks_u))]
        return [
            *(f"{block}{place}" for block in branch for place in (1, 2)),
            *(f"{block}{place}_{side}" for block in both for place in (1, 2)),
            f"norm_{side}",
        ]


class AudioEncoder(Encoder):
    """Mono waveforms: arrays at 16 kHz, or objects with `samples` and `rate`."""

    recommended: ClassVar[Mapping[str, Mapping[str, float]]] = {"*": {"lr": 3e-4}}

    def __init__(self, model: CavMae) -> None:
        super().__init__()
        self.model = model
        self.norm_names = [f"model.{name}" for name in model.norms("a")]

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """Normalised filter banks (B, 1024, 128)."""
        length = self.model.pos_embed_a.shape[1] * 16 * 16 // BINS
        return torch.stack([torch.from_numpy(filter_bank(item, length)) for item in items])

    def forward(self, prepared: Tensor) -> Tensor:
        """Unit vectors (B, D)."""
        return self.model.audio(prepared)


class VideoEncoder(Encoder):
    """Clips: arrays (frames, height, width, 3) or lists of pictures, of which ten are taken.

    `frames` says how they become one vector: "mean" of the ten vectors, or the number of the one
    that is looked at (5 in the published script).
    """

    recommended: ClassVar[Mapping[str, Mapping[str, float]]] = {"*": {"lr": 3e-4}}

    def __init__(self, model: CavMae, frames: Frames = "mean") -> None:
        super().__init__()
        if frames != "mean" and not (isinstance(frames, int) and 0 <= frames < _CLIP_FRAMES):
            raise BadInput(
                f'frames is {frames!r}: expected "mean", or the number of one frame from 0 to '
                f"{_CLIP_FRAMES - 1}."
            )
        self.model = model
        self.taken = range(_CLIP_FRAMES) if frames == "mean" else (frames,)
        self.norm_names = [f"model.{name}" for name in model.norms("v")]

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """The frames that are looked at, (B, frames, 3, 224, 224)."""
        side = 16 * round(self.model.pos_embed_v.shape[1] ** 0.5)
        return torch.stack(
            [
                stacked([cropped(picture(frame), side) for frame in self._look(item)], IMAGENET)
                for item in items
            ]
        )

    def forward(self, prepared: Tensor) -> Tensor:
        """Unit vectors (B, D)."""
        vectors = self.model.video(prepared.flatten(0, 1))
        return normalize(vectors.reshape(*prepared.shape[:2], -1).mean(1), dim=-1)

    def _look(self, clip: Any) -> list[Any]:
        """The frames to look at, of ten that lie evenly over the clip, as the authors take them."""
        count = len(clip)
        if not count:
            raise BadInput("got a clip without frames.")
        return [clip[index * count // _CLIP_FRAMES] for index in self.taken]


def recognises(path: Path) -> bool:
    """Whether a file is a checkpoint of CAV-MAE."""
    return FORMAT.recognises(path)


def load(path: Path, *, frames: Frames = "mean") -> dict[str, Encoder]:
    """The encoders "audio" and "video" of a checkpoint, pre-trained or fine-tuned."""
    checkpoint = FORMAT.open(path)
    with torch.device("meta"):
        model = _shaped_like(checkpoint)
    checkpoint.fill(model)
    return {"audio": AudioEncoder(model), "video": VideoEncoder(model, frames)}


def filter_bank(item: Any, length: int) -> Floats:
    """Normalised log energies (length, 128) of a waveform, cut, or padded before normalising."""
    energies = log_mel(resample(_centred(item), getattr(item, "rate", RATE)))[:length]
    padded = np.pad(energies, ((0, length - len(energies)), (0, 0)))
    scaled: Floats = (padded - np.float32(_SILENCE_MEAN)) / np.float32(_SPREAD)
    return scaled


def _centred(item: Any) -> Floats:
    samples = np.asarray(getattr(item, "samples", item))
    if samples.ndim != 1:
        raise BadInput(
            f"a mono waveform has one axis, this one has shape {samples.shape}: "
            "take one of its channels, or their mean."
        )
    if np.issubdtype(samples.dtype, np.signedinteger):
        samples = samples / (float(np.iinfo(samples.dtype).max) + 1.0)
    if not np.issubdtype(samples.dtype, np.floating):
        raise BadInput(f"samples of type {samples.dtype}: expected floats in [-1, 1] or integers.")
    centred: Floats = samples - samples.mean(dtype=np.float64) if len(samples) else samples
    return centred


def _shaped_like(checkpoint: Checkpoint) -> CavMae:
    _, sounds, width = checkpoint.shape("pos_embed_a")
    views = checkpoint.shape("pos_embed_v")[1]
    depth, shared = checkpoint.depth("blocks_a."), checkpoint.depth("blocks_u.")
    return CavMae(width, depth, shared, (sounds, views))


class _Patches(nn.Module):
    """Squares of 16 x 16 as rows."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, kernel_size=16, stride=16)

    def forward(self, values: Tensor) -> Tensor:
        rows: Tensor = self.proj(values.to(self.proj.weight.dtype)).flatten(2).transpose(1, 2)
        return rows


class _Block(nn.Module):
    """A transformer block with a pair of norm layers for each way of going through it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm1_a, self.norm1_v = (nn.LayerNorm(width) for _ in range(3))
        self.attn = _Attention(width)
        self.norm2, self.norm2_a, self.norm2_v = (nn.LayerNorm(width) for _ in range(3))
        self.mlp = _Mlp(width)

    def forward(self, rows: Tensor, way: Literal["", "_a", "_v"]) -> Tensor:
        rows = rows + self.attn(getattr(self, f"norm1{way}")(rows))
        passed: Tensor = rows + self.mlp(getattr(self, f"norm2{way}")(rows))
        return passed


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        parts = self.qkv(rows).unflatten(-1, (3, -1, _HEAD)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        projected: Tensor = self.proj(mixed)
        return projected


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, rows: Tensor) -> Tensor:
        projected: Tensor = self.fc2(gelu(self.fc1(rows)))
        return projected
