"""Nocaps (Agrawal et al., 2019), its validation set by domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.media.lazy_items import ImageFile

from .dataset import Captioned, Dataset, captioned
from .reading.reader import NUMBER_OR_TEXT, TEXT, find_file, find_folder, read_json, records

ANNOTATIONS = ("nocaps_val_4500_captions.json", "annotations/nocaps_val_4500_captions.json")
FOLDERS = ("val", "validation", "images", "")
ENTIRE = "entire"


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The images of one domain, or all of them, with their ten captions."""
    path = find_file(root, *ANNOTATIONS)
    content = read_json(path)
    if not isinstance(content, dict) or not {"images", "annotations"} <= set(content):
        raise BadFile(f'"{path}" lacks "images" or "annotations": expected COCO\'s format.')
    images = records(path, content["images"], id=NUMBER_OR_TEXT, file_name=TEXT, domain=TEXT)
    captions, homeless = _captions(path, content["annotations"], {each["id"] for each in images})
    folder = find_folder(root, *FOLDERS)
    shown = [
        Captioned(
            Path(each["file_name"]).stem,
            ImageFile(folder / each["file_name"]),
            captions[each["id"]],
            each["domain"],
        )
        for each in images
        if part in (ENTIRE, each["domain"])
    ]
    return captioned(f"{name}-{part}", shown, query, left_out=homeless)


def _captions(
    path: Path, content: Any, known: set[Any]
) -> tuple[dict[Any, list[str]], Sequence[str]]:
    """The captions of each image, and a sentence on each that has none."""
    captions: dict[Any, list[str]] = defaultdict(list)
    homeless = []
    for each in records(path, content, id=NUMBER_OR_TEXT, image_id=NUMBER_OR_TEXT, caption=TEXT):
        if each["image_id"] in known:
            captions[each["image_id"]].append(each["caption"])
        else:
            homeless.append(
                f'caption {each["id"]} is of image {each["image_id"]}, which "{path.name}" lacks.'
            )
    return captions, homeless
