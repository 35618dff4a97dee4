"""Safe tensor files: safetensors with a checked header, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from queryshift.errors import BadFile


def write(path: str | Path, kind: str, tensors: Mapping[str, Tensor], about: Any) -> None:
    """Write tensors and a JSON value under one name, atomically."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    body["about"] = text_tensor(json.dumps(about))
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        save_file(body, temporary, metadata={"queryshift": kind})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: str | Path, kind: str) -> tuple[dict[str, Tensor], Any]:
    """The tensors (memory-mapped) and the JSON value of a file of this kind."""
    path = Path(path)
    if not path.is_file():
        raise BadFile(f'there is no file "{path}": expected a queryshift {kind} file.')
    try:
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("queryshift")
            if found != kind:
                raise BadFile(
                    f'"{path}" is {f"a queryshift {found} file" if found else "of another program"}'
                    f", expected a queryshift {kind} file."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(tensor_text(tensors.pop("about")))
        if not isinstance(about, dict):
            raise ValueError(f"it is described by a {type(about).__name__}, not by named parts")
        return tensors, about
    except (SafetensorError, KeyError, ValueError) as error:
        raise BadFile(
            f'"{path}" is damaged or cut short ({error}): expected a whole queryshift {kind} file; '
            "make it again or take it from a backup."
        ) from error


def text_tensor(text: str) -> Tensor:
    """Text as bytes: a safetensors header is limited in size, its tensors are not."""
    return torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)


def tensor_text(tensor: Tensor) -> str:
    """The text that `text_tensor` stored."""
    return bytes(tensor.numpy()).decode()
