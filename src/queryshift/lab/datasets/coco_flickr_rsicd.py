"""COCO, Flickr30k, RSICD and RSITMD: JSON files in the format of Karpathy and Fei-Fei's splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from queryshift.media.lazy_items import ImageFile

from .dataset import Captioned, Dataset, captioned
from .known_datasets import DATASETS
from .reading.reader import (
    TEXT,
    TEXTS,
    Kind,
    find_file,
    find_folder,
    read_json,
    records,
)

CAPTIONS = 5  # an image; COCO has some with six or seven, of which all published recalls use five
TRAINING = ("train", "restval")  # COCO's 30,504 left-over validation images are trained on
SENTENCES = Kind(
    'a list of sentences with a "raw" text each',
    lambda value: (
        isinstance(value, list)
        and all(isinstance(each, dict) and TEXT.fits(each.get("raw")) for each in value)
    ),
)


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The images of one split with their first five captions."""
    about = DATASETS[name]
    own = [about.split_file.format(part)] if about.split_file else []
    path = find_file(root, *about.annotations, *own)
    content, images = read_json(path), find_folder(root, *about.folders)
    if isinstance(content, dict):
        shown = _all_splits(path, content.get("images"), part, images)
    else:
        shown = _one_split(path, content, root)
    return captioned(name, shown, query, most=CAPTIONS)


def _all_splits(path: Path, content: Any, part: str, images: Path) -> Sequence[Captioned]:
    wanted = TRAINING if part == "train" else (part,)
    return [
        Captioned(
            PurePosixPath(record["filename"]).stem,
            ImageFile(images / record.get("filepath", "") / record["filename"]),
            [sentence["raw"] for sentence in record["sentences"]],
        )
        for record in records(path, content, filename=TEXT, split=TEXT, sentences=SENTENCES)
        if record["split"] in wanted
    ]


def _one_split(path: Path, content: Any, root: Path) -> Sequence[Captioned]:
    return [
        Captioned(
            PurePosixPath(record["image"]).stem,
            ImageFile(root / record["image"]),
            record["caption"],
        )
        for record in records(path, content, image=TEXT, caption=TEXTS)
    ]
