"""Embedding exports: vectors in .npy and .safetensors files, with ids in a file beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile

VECTORS = (".npy", ".safetensors")
Floats = NDArray[np.floating[Any]]


def read_vectors(path: Path) -> tuple[list[Any], Floats]:
    """Ids and vectors (N, D); ids are the positions where no `NAME.ids.txt` or `.json` is there."""
    try:
        stored = np.load(path) if path.suffix.lower() == ".npy" else _tensor(path)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise BadFile(f'"{path}" cannot be read as vectors ({error}).') from error
    if stored.ndim != 2 or not np.issubdtype(stored.dtype, np.floating) or not len(stored):
        raise BadFile(
            f'"{path}" holds {stored.dtype} of shape {stored.shape}, expected numbers with a '
            "fraction, (items, dimensions)."
        )
    ids = _ids_beside(path)
    if ids is not None and len(ids) != len(stored):
        raise BadFile(f'"{path}" has {len(stored)} vectors, the file beside it {len(ids)} ids.')
    return list(range(len(stored))) if ids is None else ids, stored


def _tensor(path: Path) -> Floats:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise BadFile(f'"{path}" is no safetensors file ({error}).') from error
    tables = {name: tensor for name, tensor in tensors.items() if tensor.ndim == 2}
    name = "vectors" if "vectors" in tables else next(iter(tables), "")
    if not name or (len(tables) > 1 and name != "vectors"):
        listed = ", ".join(f"{key} {tuple(tensor.shape)}" for key, tensor in tensors.items())
        raise BadFile(f'"{path}" holds {listed or "nothing"}, expected one table "vectors".')
    array: Floats = tables[name].float().numpy()
    return array


def _ids_beside(path: Path) -> list[Any] | None:
    lines, listed = path.with_suffix(".ids.txt"), path.with_suffix(".ids.json")
    if lines.is_file():
        return lines.read_text(encoding="utf-8").split()
    if not listed.is_file():
        return None
    try:
        return list(json.loads(listed.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise BadFile(f'"{listed}" holds no JSON list of ids ({error}).') from error
