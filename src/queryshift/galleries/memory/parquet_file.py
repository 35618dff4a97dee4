"""Galleries in Parquet: a column of ids, a column of vectors, and the origin in the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile
from queryshift.support.atomic_files import replacing
from queryshift.support.optional import need

from ..hits import Id
from ..model_origin import ModelOrigin

KEY = b"queryshift"


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


def fixed_size_lists(rows: NDArray[np.float32]) -> Any:
    """Vectors (N, D) as an Arrow array of lists of one length, without a copy."""
    arrow = need("pyarrow", "data", "a Parquet file")
    flat = arrow.array(np.ascontiguousarray(rows, dtype=np.float32).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _table(ids: Sequence[Id], vectors: NDArray[np.float32], origin: ModelOrigin | None) -> Any:
    arrow = need("pyarrow", "data", "a Parquet file")
    columns = {"id": arrow.array(list(ids)), "vector": fixed_size_lists(vectors)}
    told = {} if origin is None else {KEY: origin.as_text().encode()}
    return arrow.table(columns).replace_schema_metadata(told)
