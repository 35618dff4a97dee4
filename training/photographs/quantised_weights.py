"""Weights on disk: matrices in eight bits a number with a scale for each row, the rest in half."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

SCALE = ".scale"
LEVELS = 127


def write(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write weights in about a quarter of their bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body: dict[str, Tensor] = {}
    for name, value in tensors.items():
        body |= _packed(name, value.detach().cpu())
    save_file(body, path)


def read(path: Path) -> dict[str, Tensor]:
    """What `write` wrote, in float32 where it was floats."""
    body = load_file(path)
    return {
        name: _unpacked(value, body.get(name + SCALE))
        for name, value in body.items()
        if not name.endswith(SCALE)
    }


def _packed(name: str, value: Tensor) -> dict[str, Tensor]:
    if not value.is_floating_point():
        return {name: value}
    if value.ndim < 2:
        return {name: value.half()}
    rows = value.float().flatten(1)
    scale = (rows.abs().amax(1, keepdim=True) / LEVELS).clamp(min=1e-12)
    levels = (rows / scale).round().to(torch.int8).reshape(value.shape)
    return {name: levels, name + SCALE: scale.flatten()}


def _unpacked(value: Tensor, scale: Tensor | None) -> Tensor:
    if scale is not None:
        return (value.float().flatten(1) * scale[:, None]).reshape(value.shape)
    return value.float() if value.is_floating_point() else value
