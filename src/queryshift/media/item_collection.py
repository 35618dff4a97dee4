"""A collection: items of one modality with ids, from a file, a folder or a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np

from queryshift.errors import BadFile, BadInput
from queryshift.support.paths import is_file, is_there, user_path

from .audio import AUDIO_SUFFIXES
from .bad_rows import BadRows
from .images import IMAGE_SUFFIXES
from .lazy_items import AudioFile, EncodedImage, ImageFile, LazyItems, Source, selected
from .records import TABLES, VECTORS, Record, is_dataset, read_records, read_vectors
from .time_stamps import in_time_order, seconds_of

Id = str | int
KINDS = {"image": IMAGE_SUFFIXES, "audio": AUDIO_SUFFIXES}
OPENED: Mapping[str, Callable[[Path], Source]] = {"image": ImageFile, "audio": AudioFile}


@dataclass(frozen=True, eq=False)
class Collection:
    """Items in order, each with an id, and other columns of their rows.

    Args:
        modality: "text", "image", "audio", or "vector".
        ids: one for each item, text or whole numbers.
        items: texts, vectors, or files that are opened when they are accessed.
        partners: ids on the other side that a row names: matches, clicks, a caption's image.
        times: seconds since the epoch, if the rows have time stamps; the items are then sorted
            by them.
    """

    modality: str
    ids: Sequence[Id]
    items: Sequence[Any]
    partners: Sequence[Sequence[Id]] = ()
    times: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self.items)

    def chosen(self, rows: Sequence[int]) -> Collection:
        """Select items by row number, without opening them."""
        return Collection(
            self.modality,
            selected(self.ids, rows),
            selected(self.items, rows),
            selected(self.partners, rows) if self.partners else (),
            selected(self.times, rows) if self.times else (),
        )


def as_collection(
    given: Any,
    columns: Mapping[str, str] | None = None,
    check_rows: bool = True,
    bad: BadRows | None = None,
) -> Collection:
    """Make a collection from a path, `{id: item}`, or a list of texts, arrays or paths."""
    if isinstance(given, Collection):
        return given
    if isinstance(given, str | Path):
        return read_collection(Path(given), columns, check_rows, bad)
    pairs = given if isinstance(given, Mapping) else dict(enumerate(given))
    if not pairs:
        raise BadInput("got a collection without items, expected at least one.")
    items = list(pairs.values())
    if isinstance(items[0], Path):
        return _files(list(pairs), items)
    return Collection(_modality(items[0]), list(pairs), items)


def _modality(item: Any) -> str:
    """Return the modality of an item in memory; arrays of three axes are images, of one vectors."""
    if isinstance(item, str):
        return "text"
    if hasattr(item, "convert") or getattr(item, "ndim", 0) == 3:
        return "image"
    return "vector" if getattr(item, "ndim", 0) == 1 else "item"


def read_collection(
    path: Path,
    columns: Mapping[str, str] | None = None,
    check_rows: bool = True,
    bad: BadRows | None = None,
) -> Collection:
    """Read a collection from a file or a folder.

    Args:
        path: a folder of images or of audio files, a table (.jsonl, .csv, .tsv, .parquet), vectors
            (.npy, .safetensors), captions, one per line (.txt), or a folder that `datasets` saved.
        columns: the table's columns by role, if they have other names: `{"id": "sku"}`.
        check_rows: whether empty items and missing files of a table are refused now, not when they
            are opened.
        bad: counts bad rows, which are left out; without it, the first one is an error.
    """
    path = user_path(path)
    if not is_there(path):
        raise BadInput(f'there is no file or folder "{path}".')
    ending = path.suffix.lower()
    if path.is_dir() and not is_dataset(path):
        return _folder(path)
    if path.is_dir() or ending in TABLES:
        with closing(read_records(path, columns, bad)) as records:
            return _table(path, records, check_rows, bad or BadRows("rows", strict=True))
    if ending in VECTORS:
        ids, vectors = read_vectors(path)
        return Collection("vector", ids, list(vectors))
    if ending == ".txt":
        texts = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        return Collection("text", list(range(len(texts))), texts)
    known = ", ".join((*TABLES, *VECTORS, ".txt"))
    raise BadInput(f'"{path}" ends in "{ending}", expected a folder or one of {known}.')


def _folder(path: Path) -> Collection:
    """Return the images or audio files of a folder; their ids are the files' names."""
    files = sorted(file for file in path.iterdir() if kind_of(file))
    if not files:
        endings = ", ".join((*IMAGE_SUFFIXES, *AUDIO_SUFFIXES))
        raise BadInput(f'"{path}" has no file that ends in {endings}.')
    return _files([file.name for file in files], files)


def kind_of(file: Path) -> str:
    """Return what a file holds by its ending: "image", "audio", or "" if unknown."""
    return next((kind for kind, ends in KINDS.items() if file.suffix.lower() in ends), "")


def _files(ids: Sequence[Id], files: Sequence[Path], mixed: bool = False) -> Collection:
    """Make a collection of files of one kind; `mixed` ones are opened as the first known kind."""
    kinds = {kind_of(file): file for file in files}
    if mixed and len(kinds) > 1:
        kinds = {kind: file for kind, file in kinds.items() if kind}
    elif len(kinds) > 1 or "" in kinds:
        shown = " and ".join(f'"{file.name}"' for file in kinds.values())
        raise BadInput(f"got the files {shown}: expected only images or only audio files.")
    kind = next(iter(kinds))
    return Collection(kind, ids, LazyItems([OPENED[kind](file) for file in files]))


def _table(path: Path, records: Iterator[Record], check_rows: bool, bad: BadRows) -> Collection:
    """Read the items of a table, sorted by time stamp if it has time stamps.

    Only the id, the item, the partners and the time of a row are kept.
    """
    base = path if path.is_dir() else path.parent
    ids, values, named, times = list[Id](), list[Any](), list[Sequence[Id]](), list[float]()
    role = ""
    for record in records:
        role = role or _item_role(path, record)
        row = len(values) + bad.count
        with bad.skipping():
            value = _value(base, record, role, check_rows)
            if "time" in record.values:
                times.append(seconds_of(record))
            values.append(value)
            ids.append(_id(record, str(value) if role == "file" else row))
            named.append(_partners(record, role))
    bad.check(len(values) + bad.count)
    if times:
        times, ids, values, named = in_time_order(times, ids, values, named)
    modality, items = _items(base, role, values, mixed=not check_rows)
    return Collection(modality, ids, items, named if any(named) else (), times)


def _value(base: Path, record: Record, role: str, check_rows: bool) -> Any:
    """Return the item of a row; vectors become compact arrays."""
    if check_rows:
        _check_row(base, record, role)
    value = record.values[role]
    if role != "vector":
        return value
    try:
        return np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        if not check_rows:
            return value  # refused when it is encoded
        raise record.problem(
            f"got {shortened(value)} as the vector, expected a list of numbers."
        ) from None


def _id(record: Record, default: Id) -> Id:
    named: Id | None = record.values.get("id")
    return default if named is None or named == "" else named


def _items(base: Path, role: str, values: Sequence[Any], mixed: bool) -> tuple[str, Sequence[Any]]:
    """Return the modality and the items of a column; paths are relative to the table's folder."""
    if role in ("text", "vector"):
        return role, values
    if hasattr(values[0], "convert"):  # images that the dataset has decoded
        return "image", values
    if _encoded(values[0]) is not None:
        return "image", LazyItems([EncodedImage(_encoded(value) or b"") for value in values])
    paths = [base / str(value) for value in values]
    opened = _files(range(len(paths)), paths, mixed)
    return opened.modality, opened.items


def _encoded(value: Any) -> bytes | None:
    """Return the bytes of an image file in a row, plain or as `datasets` stores them."""
    stored = value.get("bytes") if isinstance(value, Mapping) else value
    return stored if isinstance(stored, bytes) else None


def _item_role(path: Path, first: Record) -> str:
    """Find the column of the items; a table must not have two of them."""
    present = [role for role in ("vector", "text", "path") if role in first.values]
    if len(present) > 1 and present[0] != "vector":
        raise BadFile(
            f'"{path}" has a column of texts and one of paths: leave one out, or put the texts in '
            "another file."
        )
    if present:
        return present[0]
    if "file" in first.values:
        return "file"
    raise BadFile(
        f'"{path}" has no column of items: expected "text", "path" or "vector", or name yours '
        "with --column text=NAME."
    )


def _check_row(base: Path, record: Record, role: str) -> None:
    """Refuse a row without an item, or with a file that is not there."""
    value = record.values[role]
    if value is None or (isinstance(value, str) and not value.strip()):
        raise record.problem(f"the {role} is empty: fill it in, or leave the row out.")
    if role == "text" and not isinstance(value, str):
        raise record.problem(f"got {value!r} as the text, expected a string.")
    in_table = hasattr(value, "convert") or _encoded(value) is not None
    if role in ("path", "file") and not in_table:
        _check_file(base / str(value), record)


def _check_file(file: Path, record: Record) -> None:
    if not is_file(file):
        raise record.problem(f'there is no file "{file}".')
    if not kind_of(file):
        raise record.problem(f'"{file.name}" is neither an image nor an audio file.')


def _partners(record: Record, role: str) -> list[Id]:
    named = record.values.get("partner")
    if named is None and role == "text":
        named = record.values.get("file")  # a caption's image
    if named in (None, ""):
        return []
    return list(named) if isinstance(named, list | tuple) else [named]
