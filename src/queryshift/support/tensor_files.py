"""Safe tensor files: safetensors with a checked header and a checksum, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from queryshift.errors import BadFile

from .atomic_files import replacing
from .paths import is_file

FORMAT = 2  # 1: without a checksum
HASHED_AT_ONCE = 2**26  # bytes; an interrupt is handled between two parts


def write(path: str | Path, kind: str, tensors: Mapping[str, Tensor], about: Any) -> None:
    """Write tensors and named JSON values as one file, atomically.

    If the disk is full or the folder is not writable, a `BadFile` names the path, and an earlier
    file stays unchanged.
    """
    path = Path(path)
    body, metadata = _body(kind, tensors, about)
    try:
        with replacing(path) as temporary:
            save_file(body, temporary, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise BadFile(
            f'"{path}" could not be written ({error}): make room on the disk or choose another '
            "place; what was there before is unchanged."
        ) from error


def packed_bytes(kind: str, tensors: Mapping[str, Tensor], about: Any) -> bytes:
    """Return the content of such a file as bytes, for a database."""
    body, metadata = _body(kind, tensors, about)
    return save(body, metadata=metadata)


def _body(
    kind: str, tensors: Mapping[str, Tensor], about: Any
) -> tuple[dict[str, Tensor], dict[str, str]]:
    body = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    body["about"] = text_tensor(json.dumps({"format": FORMAT, **about}))
    return body, {"queryshift": kind, "checksum": checksum(kind, body)}


def read(
    path: str | Path | bytes, kind: str, *, verify: bool = True, mapped: bool = True
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON values of a file of this kind, or of its bytes.

    `verify=False` does not check the checksum. `mapped` tensors stay on disk until they are
    needed; other tensors are copied into memory, so later changes of the file do not matter.
    """
    content, path = (path, Path("stored bytes")) if isinstance(path, bytes) else (None, Path(path))
    if content is None and not is_file(path):
        raise BadFile(f'there is no file "{path}": expected a queryshift {kind} file.')
    try:
        if content is None:
            body, metadata = _opened(path, mapped)
        else:
            body, metadata = load(content), _metadata(content)
        _check_kind(path, metadata.get("queryshift"), kind)
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
    """Return a hash of the kind, and of each tensor's name, type, shape and bytes."""
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
    """Store text as a tensor: a safetensors header is limited in size, tensors are not."""
    return torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)


def tensor_text(tensor: Tensor) -> str:
    """Return the text that `text_tensor` stored."""
    return bytes(tensor.numpy()).decode()


def _opened(path: Path, mapped: bool) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not mapped:
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        return tensors, file.metadata() or {}


def _metadata(content: bytes) -> dict[str, str]:
    """Read the header of a safetensors file: its length in eight bytes, then JSON."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return {str(name): str(value) for name, value in metadata.items()}


def _check_kind(path: Path, written: str | None, kind: str) -> None:
    if written != kind:
        raise BadFile(
            f'"{path}" is {f"a queryshift {written} file" if written else "of another program"}'
            f", expected a queryshift {kind} file."
        )


def _about(path: Path, stored: Tensor) -> dict[str, Any]:
    """Return the JSON values, including the number of the file's format."""
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
    """Refuse content that does not fit its checksum; files of format 1 have none."""
    if (stored is not None or written > 1) and stored != checksum(kind, body):
        raise ValueError("its content is not what its checksum says")
