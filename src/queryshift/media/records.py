"""Rows of JSONL, CSV, TSV and Parquet files and of Hugging Face `datasets` folders, with places."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile, unknown
from queryshift.support.optional import need

ROLES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "query_id", "item_id", "product_id", "candidate_id"),
    "text": ("text", "caption", "query", "title", "item"),
    "path": ("path", "image_path", "audio_path", "image", "audio"),
    "vector": ("vector", "embedding"),
    "partner": ("match", "matches", "clicked", "clicked_id", "click"),
    "file": ("file_name", "file", "filename"),
    "time": ("time", "timestamp", "ts"),
}
"""What a column is for, to the names it may have, in any case of letters."""

TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class Record:
    """A row of a file: its values by role, and where it stands."""

    place: str
    values: Mapping[str, Any]

    def problem(self, reason: str) -> BadFile:
        """The error that names the file and the line."""
        return BadFile(f"{self.place}: {reason}")


def read_records(path: Path, columns: Mapping[str, str] | None = None) -> list[Record]:
    """All rows of a table; `columns` says which column a role has, where it is called otherwise."""
    for role in columns or {}:
        if role not in ROLES:
            raise unknown("role of a column", role, ROLES)
    readers = {".csv": _csv, ".tsv": _csv, ".parquet": _parquet}
    read = _dataset if path.is_dir() else readers.get(path.suffix.lower(), _jsonl)
    rows = list(read(path))
    if not rows:
        raise BadFile(f'"{path}" has no rows: expected at least one.')
    names = {name for _, values in rows for name in values}
    used = _columns(names, columns or {})
    return [
        Record(place, {role: values.get(name) for role, name in used.items()})
        for place, values in rows
    ]


def is_dataset(path: Path) -> bool:
    """Whether a folder was written by `datasets.Dataset.save_to_disk`."""
    return (path / "dataset_info.json").is_file() and (path / "state.json").is_file()


def _columns(names: set[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The column of each role that a table has; one table may lack a name that another has."""
    by_lower = {name.lower(): name for name in names}
    used = {}
    for role, known in ROLES.items():
        wanted = (chosen[role].lower(), *known) if role in chosen else known
        column = next((by_lower[name] for name in wanted if name in by_lower), None)
        if column is not None:
            used[role] = column
    return used


def _jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        place = f'"{path}", line {number}'
        try:
            values = json.loads(line)
        except ValueError as error:
            raise BadFile(f"{place}: not JSON ({error}), expected one object a line.") from error
        if not isinstance(values, dict):
            raise BadFile(f"{place}: got a {type(values).__name__}, expected an object.")
        yield place, values


def _csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(_lines(path, keep_ends=True), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        for values in reader:
            place = f'"{path}", line {reader.line_num}'
            if len(values) not in (0, len(header)):
                raise BadFile(
                    f"{place}: got {len(values)} fields, expected {len(header)} as in the first "
                    "line: put fields with a delimiter in them in quotes."
                )
            if values:
                yield place, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise BadFile(f'"{path}", line {reader.line_num}: {error}.') from error


def _lines(path: Path, keep_ends: bool = False) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines(keepends=keep_ends)
    except UnicodeDecodeError as error:
        raise BadFile(f'"{path}" is not UTF-8 ({error.reason}, byte {error.start}).') from error
    except OSError as error:
        raise BadFile(f'cannot read "{path}": {error.strerror}.') from error


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    parquet = need("pyarrow.parquet", "data", "reading Parquet")
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are one of the two
        raise BadFile(f'"{path}" cannot be read as Parquet ({error}).') from error
    for number, values in enumerate(rows, start=1):
        yield f'"{path}", row {number}', values


def _dataset(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    datasets = need("datasets", "data", "reading a Hugging Face dataset")
    try:
        rows = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise BadFile(f'"{path}" cannot be read as a dataset ({error}).') from error
    if hasattr(rows, "keys"):
        raise BadFile(f'"{path}" holds the splits {", ".join(rows)}: give the folder of one.')
    for number, values in enumerate(rows, start=1):
        yield f'"{path}", row {number}', dict(values)
