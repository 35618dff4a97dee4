"""Flickr8k (Hodosh et al., 2013): its own token file and split lists, or Karpathy's JSON."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from queryshift.errors import BadFile
from queryshift.media.lazy_items import ImageFile

from .coco_flickr_rsicd import CAPTIONS
from .coco_flickr_rsicd import read as read_karpathy
from .dataset import Captioned, Dataset, captioned
from .known_datasets import DATASETS
from .reading.reader import find_file, find_folder, read_lines

TEXTS = ("Flicker8k_text", "Flickr8k_text", "")  # the first spelling is theirs
TOKENS = "Flickr8k.token.txt"
LISTS = {
    "test": "Flickr_8k.testImages.txt",
    "val": "Flickr_8k.devImages.txt",
    "train": "Flickr_8k.trainImages.txt",
}


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """The images that a split's list names, in its order, with their captions."""
    about = DATASETS[name]
    tokens = find_file(root, *_beside(TOKENS), *about.annotations)
    if tokens.name in about.annotations:
        return read_karpathy(name, root, part, query)
    listed = [line.strip() for line in read_lines(find_file(root, *_beside(LISTS[part])))]
    captions, images = _captions(tokens), find_folder(root, *about.folders)
    shown = [
        Captioned(PurePosixPath(name).stem, ImageFile(images / name), captions.get(name, []))
        for name in listed
    ]
    unknown = [f'image "{each.name}" has no caption.' for each in shown if not each.captions]
    return captioned(name, shown, query, most=CAPTIONS, left_out=unknown)


def _beside(name: str) -> list[str]:
    """Places where a text file of the publisher may be."""
    return [str(PurePosixPath(folder) / name) for folder in TEXTS]


def _captions(path: Path) -> dict[str, list[str]]:
    """Captions by image: lines of "IMAGE.jpg#PLACE", a tab and the caption."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        key, tab, text = line.strip().partition("\t")
        name, mark, _ = key.rpartition("#")
        if not (tab and mark):
            raise BadFile(
                f'"{path}": line {number} is {line[:60]!r}, expected an image\'s name, "#", a '
                "number, a tab and a caption: take the file from the publisher again."
            )
        found.setdefault(name, []).append(text)
    return found
