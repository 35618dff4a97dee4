"""FashionIQ (Wu et al., 2021): a garment, and how another differs from it, in three categories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.media.lazy_items import Composed, ImageFile, LazyItems

from .dataset import Dataset
from .reading.reader import TEXT, TEXTS, find_file, find_folder, parted, read_json, records

SUFFIXES = (".png", ".jpg", ".jpeg")
TRIMMED = ".?, "


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The validation queries of one category, against all its validation images."""
    names = _names(find_file(root, f"image_splits/split.{part}.val.json"))
    path = find_file(root, f"captions/cap.{part}.val.json")
    listed = records(path, read_json(path), candidate=TEXT, captions=TEXTS)
    places = {name: place for place, name in enumerate(names)}
    folder = find_folder(root, "images", "")
    numbered = [{**record, "number": number} for number, record in enumerate(listed)]
    usable, flawed = parted(numbered, lambda record: _flaw(record, places))
    return Dataset(
        f"{name}-{part}",
        query,
        "image",
        queries=LazyItems(
            [
                Composed(_image(folder, record["candidate"]), joined(record["captions"]))
                for record in usable
            ]
        ),
        query_ids=[f"{part}-{record['number']}" for record in usable],
        candidates=LazyItems([_image(folder, name) for name in names]),
        matches=[(places[record["target"]],) for record in usable],
        candidate_ids=names,
        labels=[part] * len(usable),
        counts={
            "images": len(names),
            "captions": sum(len(record["captions"]) for record in listed),
            "pairs": len(usable),
        },
        left_out=[f'record {record["number"]} of "{path.name}" {flaw}' for record, flaw in flawed],
    )


def joined(captions: Sequence[str]) -> str:
    """The two captions of a pair as one, in the published evaluations' way: "<A> and <b>"."""
    trimmed = [caption.strip(TRIMMED) for caption in captions]
    first, *others = [caption for caption in trimmed if caption] or [""]
    return " and ".join([first.capitalize(), *others])


def _flaw(record: dict[str, Any], places: dict[str, int]) -> str | None:
    """Why a record cannot be used, as the end of a sentence; None if it can."""
    if not record.get("target"):
        return "has no target."
    if record["target"] not in places:
        return f'has the target "{record["target"]}", which is not in the split.'
    return None if joined(record["captions"]) else "has no words."


def _names(path: Path) -> list[str]:
    names = read_json(path)
    if not TEXTS.fits(names):
        raise BadFile(f'"{path}" holds no list of names: is it another file?')
    return list(names)


def _image(folder: Path, name: str) -> ImageFile:
    places = [folder / f"{name}{suffix}" for suffix in SUFFIXES]
    return ImageFile(next((place for place in places if place.is_file()), places[0]))
