"""Rows of JSONL, CSV, TSV and Parquet files and of `datasets` folders, and files of vectors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from queryshift.errors import BadFile, check_known, unknown
from queryshift.support.optional import need
from queryshift.support.paths import is_there, user_path

from .bad_rows import BadRows
from .item_reading import decoding

ROLES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "query_id", "item_id", "product_id", "candidate_id"),
    "text": ("text", "caption", "query", "title", "item"),
    "path": ("path", "image_path", "audio_path", "image", "audio"),
    "vector": ("vector", "embedding"),
    "partner": ("match", "matches", "clicked", "clicked_id", "click"),
    "file": ("file_name", "file", "filename"),
    "time": ("time", "timestamp", "ts"),
}
"""Role of a column to the names it may have, in upper or lower case."""
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
ROWS_AT_ONCE = 1024  # of a Parquet file
VECTORS = (".npy", ".safetensors")
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Record:
    """A row of a file: its values by role, and its place, such as "line 7"."""

    place: str
    values: Mapping[str, Any]

    def problem(self, reason: str) -> BadFile:
        """Return an error that names the file and the line."""
        return BadFile(f"{self.place}: {reason}")


Row = tuple[str, Mapping[str, Any] | BadFile]  # its place; its values by column, or its fault


@dataclass(frozen=True)
class _Table:
    """A file whose rows are read one at a time."""

    names: Iterable[str]
    rows: Callable[[list[str]], Iterator[Row]]  # with at least these columns


def read_records(
    path: Path, columns: Mapping[str, str] | None = None, bad: BadRows | None = None
) -> Generator[Record, None, None]:
    """Yield the rows of a table one at a time, so that the table is never in memory.

    Close the generator if you do not read all rows; the file is open until then.

    Args:
        path: the file, or a folder that `datasets` saved.
        columns: the column of a role, if its name is not in `ROLES`.
        bad: counts bad rows, which are left out; without it, the first one is an error.
    """
    for role in columns or {}:
        check_known("role of a column", role, ROLES)
    table = _table(path)
    used = _columns(set(table.names), columns or {})
    empty = True
    for place, values in table.rows(list(used.values())):
        empty = False
        if isinstance(values, BadFile):
            if bad is None:
                raise values
            bad.add(values)
            continue
        yield Record(place, {role: values.get(name) for role, name in used.items()})
    if empty:
        raise BadFile(f'"{path}" has no rows: expected at least one.')


def check_columns(columns: Mapping[str, str], sources: Iterable[Any]) -> None:
    """Refuse a column that no table among these sources has.

    Args:
        columns: the column of each role.
        sources: what is read with these columns: paths, or anything else.
    """
    paths = [user_path(source) for source in sources if isinstance(source, str | Path)]
    tables = [path for path in paths if is_there(path) and (is_dataset(path) or _is_table(path))]
    if not columns or not tables:
        return
    names = {name.lower(): name for path in tables for name in _table(path).names}
    for column in columns.values():
        if column.lower() not in names:
            raise unknown("column", column, names.values())


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in TABLES and path.is_file()


def _table(path: Path) -> _Table:
    readers = {".csv": _csv, ".tsv": _csv, ".parquet": _parquet}
    read = _dataset if path.is_dir() else readers.get(path.suffix.lower(), _jsonl)
    return read(path)


def is_dataset(path: Path) -> bool:
    """Return whether `datasets.Dataset.save_to_disk` wrote a folder."""
    return (path / "dataset_info.json").is_file() and (path / "state.json").is_file()


def _columns(names: set[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Find the table's column of each role; `chosen` names come first."""
    by_lower = {name.lower(): name for name in names}
    used = {}
    for role, known in ROLES.items():
        wanted = (chosen[role].lower(), *known) if role in chosen else known
        column = next((by_lower[name] for name in wanted if name in by_lower), None)
        if column is not None:
            used[role] = column
    return used


def _jsonl(path: Path) -> _Table:
    """Rows may have different columns, so the file is read once for their names."""
    rows = (values for _, values in _objects(path) if not isinstance(values, BadFile))
    names = dict.fromkeys(name for values in rows for name in values)
    return _Table(names, lambda used: _objects(path))


def _objects(path: Path) -> Iterator[Row]:
    with decoding(path, "UTF-8 text"), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                place = f'"{path}", line {number}'
                yield place, _object(place, line)


def _object(place: str, line: str) -> dict[str, Any] | BadFile:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BadFile(f"{place}: not JSON ({error}), expected one object a line.")
    if not isinstance(values, dict):
        return BadFile(f"{place}: got a {type(values).__name__}, expected an object.")
    return values


def _csv(path: Path) -> _Table:
    """The first line has the names; the file is opened again for the rows."""
    with closing(_fields(path)) as lines:
        _, header = next(lines, ("", []))

    def rows(used: list[str]) -> Iterator[Row]:
        for place, values in islice(_fields(path), 1, None):
            if len(values) == len(header):
                yield place, dict(zip(header, values, strict=True))
            elif values:
                fault = BadFile(
                    f"{place}: got {len(values)} fields, expected {len(header)} as in the first "
                    "line: put fields with a delimiter in them in quotes."
                )
                yield place, fault

    return _Table(header, rows)


def _fields(path: Path) -> Generator[tuple[str, list[str]], None, None]:
    """Yield the place and the fields of each line of a CSV or TSV file."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with decoding(path, "UTF-8 text"), path.open(encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for values in reader:
                yield f'"{path}", line {reader.line_num}', values
        except csv.Error as error:
            raise BadFile(f'"{path}", line {reader.line_num}: {error}.') from error


def _parquet(path: Path) -> _Table:
    parquet = need("pyarrow.parquet", "data", "reading Parquet")

    def rows(used: list[str]) -> Iterator[Row]:
        number = 0
        with decoding(path, "Parquet"), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=used):
                for values in batch.to_pylist():
                    number += 1
                    yield f'"{path}", row {number}', values

    with decoding(path, "Parquet"):
        return _Table(parquet.read_schema(path).names, rows)


def _dataset(path: Path) -> _Table:
    datasets = need("datasets", "data", "reading a Hugging Face dataset")
    with decoding(path, "a dataset"):
        stored = datasets.load_from_disk(str(path))
    if hasattr(stored, "keys"):
        raise BadFile(f'"{path}" holds the splits {", ".join(stored)}: give the folder of one.')

    def rows(used: list[str]) -> Iterator[Row]:
        for number, values in enumerate(stored, start=1):
            yield f'"{path}", row {number}', dict(values)

    return _Table(stored.column_names, rows)


def read_vectors(path: Path) -> tuple[list[Any], Floats]:
    """Read ids and vectors (N, D); ids are in `NAME.ids.txt` or `.json`, else positions."""
    with decoding(path, "vectors"):
        stored = np.load(path) if path.suffix.lower() == ".npy" else _tensor(path)
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
    from safetensors.torch import load_file

    tensors = load_file(path)
    tables = {name: tensor for name, tensor in tensors.items() if tensor.ndim == 2}
    name = "vectors" if "vectors" in tables else next(iter(tables), "")
    if not name or (len(tables) > 1 and name != "vectors"):
        listed = ", ".join(f"{key} {tuple(tensor.shape)}" for key, tensor in tensors.items())
        raise BadFile(f'"{path}" holds {listed or "nothing"}, expected one table "vectors".')
    return cast(Floats, tables[name].float().numpy())


def _ids_beside(path: Path) -> list[Any] | None:
    lines, listed = path.with_suffix(".ids.txt"), path.with_suffix(".ids.json")
    if lines.is_file():
        return lines.read_text(encoding="utf-8").split()
    if not listed.is_file():
        return None
    with decoding(listed, "a JSON list of ids"):
        return list(json.loads(listed.read_text(encoding="utf-8")))
