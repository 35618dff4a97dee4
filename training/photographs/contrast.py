"""The loss of both trainings: contrast of pictures and captions in both directions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

SMOOTHING = 0.05


def contrast(seen: Tensor, read: Tensor, scale: Tensor) -> Tensor:
    """Mean loss of pictures (B, D) with each of their captions (C, B, D), both ways."""
    right = torch.arange(len(seen), device=seen.device)
    losses = []
    for captions in read:
        cosines = scale * seen @ captions.T
        losses += [_cross(cosines, right), _cross(cosines.T, right)]
    return torch.stack(losses).mean()


def _cross(cosines: Tensor, right: Tensor) -> Tensor:
    return cross_entropy(cosines, right, label_smoothing=SMOOTHING)
