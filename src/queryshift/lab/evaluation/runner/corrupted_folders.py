"""Queries that were corrupted beforehand, from a folder in one of the published layouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.files.input_files import find_items, read_captions
from queryshift.lab.corruptions.files.layouts import LAYOUTS
from queryshift.lab.datasets import Dataset
from queryshift.media.lazy_items import AudioFile, Frames, ImageFile, LazyItems, Source

from ..benchmarks import AS_IT_IS, Benchmark

_SOURCES: dict[str, Callable[[tuple[Path, ...]], Source]] = {
    "image": lambda files: ImageFile(files[0]),
    "video": Frames,
    "audio": lambda files: AudioFile(files[0]),
}


def corrupted_beforehand(
    row: Benchmark, dataset: Dataset, shift: str, severity: int, folder: Path
) -> Sequence[Any]:
    """The queries of a dataset as a folder holds them under this shift.

    An image, clip or audio file is found by the name of its clean file, or by the query's id; a
    caption by its image and place, or, in a file that names no images, by its line.
    """
    if shift == AS_IT_IS or "+" in shift:
        raise BadInput(
            f"{row.name} draws or combines corruptions, which folders of single ones do not hold: "
            "leave --from-folder out, they are made as they are asked."
        )
    inner = _inner_folder(folder, row.query, shift, severity)
    if row.query == "text":
        return _captions(inner, dataset.query_ids)
    items = {PurePosixPath(item.id).stem: item.sources for item in find_items(row.query, inner)}
    return LazyItems(list(map(_SOURCES[row.query], _by_name(items, _names(dataset), inner))))


def _by_name(items: Mapping[str, Any], names: Sequence[str], path: Path) -> list[Any]:
    """The item of each name, or an error that says what is missing."""
    lost = [name for name in names if name not in items]
    if lost:
        raise BadFile(
            f'"{path}" holds nothing for {len(lost)} of {len(names)} queries, the first is '
            f'"{lost[0]}": make it with `queryshift corrupt` from all clean ones.'
        )
    return [items[name] for name in names]


def _names(dataset: Dataset) -> list[str]:
    """The name of each query's clean file, without its suffix."""
    if isinstance(dataset.queries, LazyItems):
        return [source.files[0].stem for source in dataset.queries.sources]
    return list(dataset.query_ids)


def _inner_folder(folder: Path, modality: str, shift: str, severity: int) -> Path:
    """The folder of this shift in the first layout that has one."""
    fitting = [style for style in LAYOUTS.values() if style.folders.get(modality)]
    names = [style.folder(modality, shift, severity) for style in fitting]
    for name in names:
        if (folder / name).is_dir():
            return folder / name
    raise BadFile(
        f'"{folder}" holds no {modality} queries under "{shift}" at severity {severity}: expected '
        f"a folder {' or '.join(names)}, as `queryshift corrupt --layout` makes them."
    )


def _captions(folder: Path, names: Sequence[str]) -> Sequence[str]:
    files = [item.sources[0] for item in find_items("text", folder)]
    tested = [file for file in files if "test" in file.stem] or files  # beside copies of others
    if len(tested) != 1:
        raise BadFile(f'"{folder}" holds {len(tested)} files of captions, expected one.')
    captions = read_captions(tested[0])
    if captions.records is not None and all("image" in record for record in captions.records):
        return _by_name(_by_image(captions.records), names, tested[0])
    if len(captions.texts) != len(names):
        raise BadFile(
            f'"{tested[0]}" has {len(captions.texts)} captions and names no images, expected one '
            f"for each of the {len(names)} queries, in their order."
        )
    return captions.texts


def _by_image(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Captions by the ids that datasets give them: the image, and which of its captions."""
    texts: dict[str, list[str]] = defaultdict(list)
    for record in records:
        caption = record["caption"]
        several = [caption] if isinstance(caption, str) else caption
        texts[PurePosixPath(str(record["image"])).stem] += several
    return {f"{name}#{at}": text for name, own in texts.items() for at, text in enumerate(own)}
