"""Queries that were corrupted beforehand, from a folder in one of the published layouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.files.formats import read_captions
from queryshift.lab.corruptions.files.items import find_items
from queryshift.lab.corruptions.files.layouts import LAYOUTS
from queryshift.lab.datasets import Dataset
from queryshift.lab.datasets.items import LazyItems
from queryshift.media.films import read_clip
from queryshift.media.pictures import read_picture
from queryshift.media.sounds import read_sound

from ..benchmarks import AS_IT_IS, Benchmark

Files = tuple[Path, ...]


@dataclass(frozen=True)
class Made:
    """One corrupted query on disk."""

    modality: str
    files: Files

    def open(self) -> Any:
        """The item, in the form its dataset gives clean ones in."""
        return _READ[self.modality](self.files)


_READ: dict[str, Callable[[Files], Any]] = {
    "image": lambda files: read_picture(files[0]).convert("RGB"),
    "video": lambda files: [frame.convert("RGB") for frame in read_clip(files)],
    "audio": lambda files: read_sound(files[0]),
}


def corrupted_beforehand(
    row: Benchmark, dataset: Dataset, shift: str, severity: int, folder: Path
) -> Sequence[Any]:
    """The queries of a dataset as a folder holds them under this shift.

    A picture, clip or sound is found by the name of its clean file, or by the query's id; a caption
    by its picture and place, or, in a file that names no pictures, by its line.
    """
    if shift == AS_IT_IS or "+" in shift:
        raise BadInput(
            f"{row.name} draws or combines corruptions, which folders of single ones do not hold: "
            "leave --from-folder out, they are made as they are asked."
        )
    place = _place(folder, row.query, shift, severity)
    if row.query == "text":
        return _captions(place, dataset.query_ids)
    items = {PurePosixPath(one.id).stem: one.sources for one in find_items(row.query, place)}
    found = _wanted(items, _names(dataset), place)
    return LazyItems([Made(row.query, tuple(files)) for files in found])


def _wanted(items: Mapping[str, Any], names: Sequence[str], place: Path) -> list[Any]:
    """What each query is there, by name."""
    lost = [name for name in names if name not in items]
    if lost:
        raise BadFile(
            f'"{place}" holds nothing for {len(lost)} of {len(names)} queries, the first is '
            f'"{lost[0]}": make it with `queryshift corrupt` from all clean ones.'
        )
    return [items[name] for name in names]


def _names(dataset: Dataset) -> list[str]:
    """What the clean file of each query is called, without its ending."""
    if isinstance(dataset.queries, LazyItems):
        return [source.files[0].stem for source in dataset.queries.sources]
    return list(dataset.query_ids)


def _place(folder: Path, modality: str, shift: str, severity: int) -> Path:
    """Where a layout puts this shift; the first layout that has such a folder counts."""
    fitting = [one.folders[modality] for one in LAYOUTS.values() if modality in one.folders]
    named = [inner for inner in (each(shift, severity) for each in fitting) if inner]
    for inner in named:
        if (folder / inner).is_dir():
            return folder / inner
    raise BadFile(
        f'"{folder}" holds no {modality} queries under "{shift}" at severity {severity}: expected '
        f"a folder {' or '.join(named)}, as `queryshift corrupt --layout` makes them."
    )


def _captions(place: Path, names: Sequence[str]) -> Sequence[str]:
    files = [item.sources[0] for item in find_items("text", place)]
    tested = [file for file in files if "test" in file.stem] or files  # beside copies of others
    if len(tested) != 1:
        raise BadFile(f'"{place}" holds {len(tested)} files of captions, expected one.')
    found = read_captions(tested[0])
    if found.records is not None and all("image" in record for record in found.records):
        return _wanted(_by_picture(found.records), names, tested[0])
    if len(found.texts) != len(names):
        raise BadFile(
            f'"{tested[0]}" has {len(found.texts)} captions and names no pictures, expected one '
            f"for each of the {len(names)} queries, in their order."
        )
    return found.texts


def _by_picture(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Captions by the ids that datasets give them: the picture, and which of its captions."""
    own: dict[str, list[str]] = defaultdict(list)
    for record in records:
        told = record["caption"]
        own[PurePosixPath(str(record["image"])).stem] += [told] if isinstance(told, str) else told
    return {f"{name}#{at}": text for name, texts in own.items() for at, text in enumerate(texts)}
