"""Galleries on disk, with the encoder that made them: one safetensors file, or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from queryshift.errors import BadFile, BadInput
from queryshift.support.atomic_files import replacing
from queryshift.support.optional import need
from queryshift.support.tensor_files import read, write

from ..candidate_checks import check_unit_length, checked_ids
from ..hits import Id
from ..model_origin import ModelOrigin

KIND = "gallery"
KEY = b"queryshift"


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


def write_parquet(
    path: Path,
    shards: Iterable[tuple[Sequence[Id], NDArray[np.float32]]],
    origin: ModelOrigin | None = None,
) -> None:
    """Write ids and vectors (N, D), a shard at a time, whole or not at all."""
    parquet = need("pyarrow.parquet", "data", "a Parquet file")
    writer: Any = None
    with replacing(path) as temporary:
        try:
            for ids, vectors in shards:
                table = _table(ids, vectors, origin)
                writer = writer or parquet.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def read_parquet(path: Path) -> tuple[list[Id], NDArray[np.float32], ModelOrigin | None]:
    """Ids, vectors (N, D) and origin of a file or of a folder of files."""
    parquet = need("pyarrow.parquet", "data", "a Parquet file")
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are one of the two
        raise BadFile(f'"{path}" cannot be read as Parquet ({error}).') from error
    if not {"id", "vector"} <= set(table.column_names) or not len(table):
        raise BadFile(
            f'"{path}" has the columns {", ".join(table.column_names)} and {len(table)} rows, '
            "expected id and vector, and at least one: build it again."
        )
    vectors = table.column("vector").combine_chunks()
    rows: NDArray[np.float32] = np.asarray(vectors.flatten(), dtype=np.float32)
    origin = ModelOrigin.from_text((table.schema.metadata or {}).get(KEY))
    return table.column("id").to_pylist(), rows.reshape(len(table), -1), origin


def _table(ids: Sequence[Id], vectors: NDArray[np.float32], origin: ModelOrigin | None) -> Any:
    arrow = need("pyarrow", "data", "a Parquet file")
    numbers = arrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    rows = arrow.FixedSizeListArray.from_arrays(numbers, vectors.shape[1])  # without a copy
    columns = {"id": arrow.array(list(ids)), "vector": rows}
    told = {} if origin is None else {KEY: origin.as_text().encode()}
    return arrow.table(columns).replace_schema_metadata(told)
