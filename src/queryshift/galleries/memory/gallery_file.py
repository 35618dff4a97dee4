"""Galleries on disk: ids, vectors, and the fingerprint of the encoder that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from queryshift.errors import BadFile, BadInput
from queryshift.support.tensor_files import read, write

from ..candidate_checks import check_unit_length, checked_ids
from ..hits import Id
from ..model_origin import ModelOrigin

KIND = "gallery"


def write_gallery(
    path: str | Path,
    ids: Sequence[Id],
    vectors: Tensor,
    fingerprint: str | None,
    origin: ModelOrigin | None = None,
) -> None:
    """Write a gallery as one file, whole or not at all."""
    about: dict[str, Any] = {"ids": list(ids), "fingerprint": fingerprint}
    if origin is not None:
        about["origin"] = asdict(origin)
    write(path, KIND, {"vectors": vectors}, about)


def read_gallery(
    path: str | Path, *, verify: bool, mapped: bool
) -> tuple[list[Id], Tensor, str | None, ModelOrigin | None]:
    """Ids, vectors (N, V, D), fingerprint and origin; `verify` looks at all of its values."""
    tensors, about = read(path, KIND, verify=verify, mapped=mapped)
    vectors, fingerprint = tensors.get("vectors"), about.get("fingerprint")
    if vectors is None or vectors.ndim != 3 or 0 in vectors.shape:
        raise _no_gallery(path, "it has no vectors of (candidates, several, dimensions)")
    if not isinstance(about.get("ids"), list):
        raise _no_gallery(path, "it has no list of ids")
    if "fingerprint" not in about or not isinstance(fingerprint, str | None):
        raise _no_gallery(path, "it does not say which encoder made it")
    try:
        ids = checked_ids(about["ids"], len(vectors))
        if verify:
            check_unit_length(vectors)
    except BadInput as error:
        raise _no_gallery(path, str(error).rstrip(".")) from error
    return ids, vectors, fingerprint, ModelOrigin.from_values(about.get("origin"))


def _no_gallery(path: str | Path, fault: str) -> BadFile:
    return BadFile(f'"{path}" holds no whole gallery ({fault}): build it again.')
