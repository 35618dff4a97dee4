"""Safe tensor files: safetensors with a checked header and a checksum, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from queryshift.errors import BadFile

from .atomic_files import Committing, replacing
from .paths import is_file

FORMAT = 2  # 1: without a checksum
HASHED_AT_ONCE = 2**26  # bytes: between two parts an interrupt is heard


def write(
    path: str | Path,
    kind: str,
    tensors: Mapping[str, Tensor],
    about: Any,
    committing: Committing = nullcontext,
) -> None:
    """Write tensors and named JSON values as one file, atomically, `committing` as it is replaced.

    A disk that is full, or a folder that may not be written to, is a `BadFile` that names the
    path; what was there before stays.
    """
    path = Path(path)
    body = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    body["about"] = text_tensor(json.dumps({"format": FORMAT, **about}))
    metadata = {"queryshift": kind, "checksum": checksum(kind, body)}
    try:
        with replacing(path, committing) as temporary:
            save_file(body, temporary, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise BadFile(
            f'"{path}" could not be written ({error}): make room on the disk or choose another '
            "place; what was there before is unchanged."
        ) from error


def read(
    path: str | Path, kind: str, *, verify: bool = True, mapped: bool = True
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON values of a file of this kind.

    `verify=False` leaves the checksum unread. `mapped` tensors stay on disk until they are
    needed; others are copied into memory, where nothing that happens to the file reaches them.
    """
    path = Path(path)
    if not is_file(path):
        raise BadFile(f'there is no file "{path}": expected a queryshift {kind} file.')
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _check_kind(path, metadata.get("queryshift"), kind)
            names = list(file.keys())
            body = {name: _held(file.get_tensor(name), mapped) for name in names}
        about = _about(path, body["about"])
        if verify:
            _check_sum(metadata.get("checksum"), about["format"], kind, body)
        return {name: tensor for name, tensor in body.items() if name != "about"}, about
    except (SafetensorError, OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise BadFile(
            f'"{path}" is damaged or cut short ({error}): expected a whole queryshift {kind} file; '
            "make it again or take it from a backup."
        ) from error


def checksum(kind: str, tensors: Mapping[str, Tensor]) -> str:
    """A hash of all content: the kind, and each tensor's name, type, shape and bytes."""
    digest = blake2b(kind.encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name]
        told = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(f"\n{told}\n".encode())
        content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(content), HASHED_AT_ONCE):
            digest.update(content[start : start + HASHED_AT_ONCE])
    return digest.hexdigest()


def text_tensor(text: str) -> Tensor:
    """Text as bytes: a safetensors header is limited in size, its tensors are not."""
    return torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)


def tensor_text(tensor: Tensor) -> str:
    """The text that `text_tensor` stored."""
    return bytes(tensor.numpy()).decode()


def _held(tensor: Tensor, mapped: bool) -> Tensor:
    return tensor if mapped else tensor.clone()


def _check_kind(path: Path, written: str | None, kind: str) -> None:
    if written != kind:
        raise BadFile(
            f'"{path}" is {f"a queryshift {written} file" if written else "of another program"}'
            f", expected a queryshift {kind} file."
        )


def _about(path: Path, stored: Tensor) -> dict[str, Any]:
    """The JSON values, with the number of the file's format among them."""
    about = json.loads(tensor_text(stored))
    if not isinstance(about, dict):
        raise ValueError(f"it is described by a {type(about).__name__}, not by named parts")
    about = {"format": 1, **about}
    if type(about["format"]) is not int or about["format"] < 1:
        raise ValueError(f"its format is {about['format']!r}")
    if about["format"] > FORMAT:
        raise BadFile(
            f'"{path}" has format {about["format"]}, this queryshift reads up to {FORMAT}: '
            "update queryshift."
        )
    return about


def _check_sum(stored: str | None, written: int, kind: str, body: Mapping[str, Tensor]) -> None:
    """Refuse content other than what was written; files of format 1 have no checksum."""
    if (stored is not None or written > 1) and stored != checksum(kind, body):
        raise ValueError("its content is not what its checksum says")
